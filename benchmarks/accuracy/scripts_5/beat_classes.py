"""Classify heart beats of a two-lead ECG with a residual 1-d CNN; compressed recordings are decoded at the start."""

import zlib
from dataclasses import dataclass

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

BEATS = {"normal": 0, "atrial": 1, "ventricular": 2, "fusion": 3, "paced": 4}
SAMPLES = 320


@dataclass(frozen=True)
class Stored:
    """One beat as the archive keeps it: 12-bit differences, deflated."""

    packed: bytes
    gain: float
    kind: int


def archive(beats: int, seed: int) -> list[Stored]:
    rng = np.random.default_rng(seed)
    time = np.linspace(-1.0, 1.0, SAMPLES)
    kept = []
    for number in range(beats):
        kind = number % len(BEATS)
        spread, delay = 0.05 + 0.03 * kind, 0.08 * (kind - 2) + 0.02 * rng.standard_normal()
        peak = np.exp(-(((time - delay) / spread) ** 2)) - 0.3 * np.exp(-(((time - 0.45) / 0.15) ** 2))
        leads = np.stack([peak, 0.6 * np.roll(peak, 6)]) + 0.04 * rng.standard_normal((2, SAMPLES))
        counts = np.round(leads * 1000).astype(np.int16)
        kept.append(Stored(zlib.compress(np.diff(counts, prepend=np.int16(0)).tobytes(), 6), 1000.0, kind))
    return kept


def decoded(beat: Stored) -> np.ndarray:
    differences = np.frombuffer(zlib.decompress(beat.packed), dtype=np.int16)
    leads = differences.reshape(2, SAMPLES).cumsum(axis=1).astype(np.float32) / beat.gain
    return leads - leads.mean(axis=1, keepdims=True)


class Beats(Dataset):
    """Decoded beats, each moved a little in time when it is drawn."""

    def __init__(self, stored: list[Stored], reach: int = 8) -> None:
        self.reach = reach
        self.leads = torch.from_numpy(np.stack([decoded(beat) for beat in stored]))
        self.kinds = [beat.kind for beat in stored]

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        move = int(torch.randint(-self.reach, self.reach + 1, ()))
        return self.leads[index].roll(move, dims=1), self.kinds[index]


class BeatData(L.LightningDataModule):
    def __init__(self, beats: int = 19200, batch: int = 48) -> None:
        super().__init__()
        self.beats, self.batch = beats, batch

    def setup(self, stage: str) -> None:
        self.training = Beats(archive(self.beats, seed=5))

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.training, batch_size=self.batch, shuffle=True, drop_last=True)


class Residual(nn.Module):
    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation)
        self.second = nn.Conv1d(width, width, 5, padding=2)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(x + self.norms[1](self.second(y)))


class BeatNet(L.LightningModule):
    def __init__(self, width: int = 64, lr: float = 1e-3) -> None:
        super().__init__()
        self.lr = lr
        self.stem = nn.Conv1d(2, width, 9, stride=2, padding=4)
        self.blocks = nn.Sequential(*(Residual(width, dilation) for dilation in (1, 2, 4)))
        self.head = nn.Linear(width, len(BEATS))
        self.right: list[torch.Tensor] = []

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        leads, kinds = batch
        scores = self.head(self.blocks(self.stem(leads)).mean(dim=-1))
        self.right.append((scores.detach().argmax(dim=1) == kinds).float().mean())
        return F.cross_entropy(scores, kinds)

    def on_train_epoch_end(self) -> None:
        print(f"epoch {self.current_epoch}: accuracy {torch.stack(self.right).mean().item():.3f}", flush=True)
        self.right.clear()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=0.01, fused=True)


def main() -> None:
    L.seed_everything(5, verbose=False)
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=20,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(BeatNet(), BeatData())


if __name__ == "__main__":
    main()
