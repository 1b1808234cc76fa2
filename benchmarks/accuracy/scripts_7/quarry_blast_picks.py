"""Pick P and S arrivals in three-component seismograms with a one-dimensional U-Net."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed

RATE_HZ = 100
RECORD = 1500
WINDOW = 1024


@dataclass
class Catalogue:
    waves: np.ndarray
    p: np.ndarray
    s: np.ndarray


def synthetic_catalogue(events: int, seed: int) -> Catalogue:
    """Records with an impulsive P phase, a stronger and slower S phase and coloured noise."""
    rng = np.random.default_rng(seed)
    p = rng.integers(400, 560, events)
    s = p + rng.integers(80, 420, events)
    time = np.arange(RECORD, dtype=np.float32)
    waves = rng.standard_normal((events, 3, RECORD), dtype=np.float32)
    waves[:, :, 1:] += 0.7 * waves[:, :, :-1]
    for onset, strength, pitch, decay in ((p, 4.0, 9.0, 60.0), (s, 9.0, 4.0, 140.0)):
        after = time[None, :] - onset[:, None].astype(np.float32)
        burst = np.sin(after * np.float32(2 * np.pi * pitch / RATE_HZ)) * np.exp(-np.clip(after, 0, None) / decay)
        burst[after < 0] = 0.0
        mix = rng.uniform(0.3, 1.0, (events, 3, 1)).astype(np.float32) * np.float32(strength)
        waves += mix * burst[:, None, :]
    return Catalogue(waves, p, s)


class PickWindows(Dataset):
    """Random windows around an event: shifted, scaled, with its polarity flipped at times."""

    def __init__(self, catalogue: Catalogue, seed: int, width: float = 15.0):
        self.catalogue = catalogue
        self.rng = np.random.default_rng(seed)
        offsets = np.arange(-RECORD, RECORD, dtype=np.float32)
        self.bump = np.exp(-0.5 * (offsets / width) ** 2)

    def __len__(self) -> int:
        return len(self.catalogue.p)

    def around(self, onset: int) -> np.ndarray:
        return self.bump[RECORD - onset : RECORD - onset + WINDOW]

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        start = int(self.rng.integers(0, 380))
        wave = self.catalogue.waves[index, :, start : start + WINDOW]
        wave = wave - wave.mean(axis=1, keepdims=True)
        gain = self.rng.uniform(0.8, 1.25) * (1 if self.rng.random() < 0.5 else -1)
        wave *= np.float32(gain / (np.abs(wave).max() + 1e-6))
        target = np.empty((3, WINDOW), dtype=np.float32)
        target[1] = self.around(int(self.catalogue.p[index]) - start)
        target[2] = self.around(int(self.catalogue.s[index]) - start)
        np.subtract(1.0, np.minimum(target[1] + target[2], 1.0), out=target[0])
        return {"wave": wave, "target": target}


def block(inside: int, outside: int, kernel: int = 7) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(inside, outside, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm1d(outside),
        nn.ReLU(inplace=True),
    )


class PhasePicker(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (16, 32, 64, 96)):
        super().__init__()
        self.stem = block(3, widths[0])
        pairs = list(zip(widths, widths[1:]))
        self.down = nn.ModuleList(nn.Sequential(nn.MaxPool1d(4), block(a, b), block(b, b)) for a, b in pairs)
        self.up = nn.ModuleList(nn.Upsample(scale_factor=4) for _ in pairs)
        self.merge = nn.ModuleList(block(a + b, a) for a, b in reversed(pairs))
        self.head = nn.Conv1d(widths[0], 3, 1)

    def forward(self, wave: torch.Tensor, target: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        x = self.stem(wave)
        skips = []
        for down in self.down:
            skips.append(x)
            x = down(x)
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), skips.pop()], dim=1))
        logits = self.head(x)
        if target is None:
            return {"logits": logits}
        loss = -(target * logits.log_softmax(dim=1)).sum(dim=1).mean()
        return {"loss": loss, "logits": logits}


def main() -> None:
    set_seed(17)
    records = PickWindows(synthetic_catalogue(3840, seed=3), seed=4)
    settings = TrainingArguments(
        output_dir="picker",
        per_device_train_batch_size=64,
        max_steps=4000,
        learning_rate=2e-3,
        lr_scheduler_type="cosine",
        warmup_steps=100,
        weight_decay=0.01,
        optim="adamw_torch_fused",
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_drop_last=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(model=PhasePicker(), args=settings, train_dataset=records)
    trainer.train()


if __name__ == "__main__":
    main()
