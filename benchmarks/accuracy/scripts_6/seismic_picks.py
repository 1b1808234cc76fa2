"""Pick P and S arrivals in three-component seismograms with a small convolutional network."""

import math
from dataclasses import dataclass, field

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

L.seed_everything(23, verbose=False)


@dataclass
class Recording:
    """One event at one station: waveforms in counts, and the sample of each arrival (None where there is none)."""

    waves: np.ndarray
    p_arrival: int | None
    s_arrival: int | None
    gain: float


@dataclass
class Settings:
    recordings: int = 3000
    samples: int = 1536
    batch_size: int = 24
    pick_width: float = 8.0
    channels: list[int] = field(default_factory=lambda: [24, 32, 48])
    lr: float = 2e-3
    epochs: int = 8


def wavelet(length: int, onset: int, decay: float, period: float, rng: np.random.Generator) -> np.ndarray:
    t = np.maximum(np.arange(length) - onset, 0)
    shape = np.exp(-t / decay) * np.sin(2 * np.pi * t / period)
    return shape * rng.normal(1.0, 0.4, size=(3, 1))


def record(settings: Settings, rng: np.random.Generator) -> Recording:
    gain = float(rng.uniform(200.0, 2000.0))
    waves = rng.normal(0.0, 0.08, size=(3, settings.samples))
    p = s = None
    if rng.random() < 0.85:
        p = int(rng.integers(40, settings.samples // 2))
        waves += wavelet(settings.samples, p, 60.0, 9.0, rng)
        s = p + int(rng.integers(50, 200))
        waves += 1.6 * wavelet(settings.samples, s, 90.0, 17.0, rng)
    return Recording((gain * waves).astype(np.float32), p, s, gain)


class Catalogue(Dataset):
    def __init__(self, recordings: list[Recording]) -> None:
        self.recordings = recordings

    def __len__(self) -> int:
        return len(self.recordings)

    def __getitem__(self, index: int) -> Recording:
        return self.recordings[index]


class PickCollator:
    """Waveforms in units of the station's gain, and for each sample the probability of noise, P and S."""

    def __init__(self, width: float) -> None:
        self.width = width

    def bell(self, sample: int, arrival: int | None) -> float:
        if arrival is None:
            return 0.0
        return math.exp(-0.5 * ((sample - arrival) / self.width) ** 2)

    def __call__(self, batch: list[Recording]) -> tuple[torch.Tensor, torch.Tensor]:
        waves, targets = [], []
        for recording in batch:
            waves.append([[float(count) / recording.gain for count in component] for component in recording.waves])
            noise, p_picks, s_picks = [], [], []
            for sample in range(recording.waves.shape[1]):
                p = self.bell(sample, recording.p_arrival)
                s = self.bell(sample, recording.s_arrival)
                p_picks.append(p)
                s_picks.append(s)
                noise.append(max(0.0, 1.0 - p - s))
            targets.append([noise, p_picks, s_picks])
        return torch.tensor(waves), torch.tensor(targets)


class Picker(L.LightningModule):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        first, *others = settings.channels
        layers = [nn.Conv1d(3, first, 11, stride=4, padding=5), nn.BatchNorm1d(first), nn.ReLU()]
        inner = first
        for outer in others:
            layers += [nn.Conv1d(inner, outer, 7, padding=3), nn.BatchNorm1d(outer), nn.ReLU()]
            inner = outer
        self.body = nn.Sequential(*layers)
        self.head = nn.ConvTranspose1d(inner, 3, 4, stride=4)

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(waves))

    def training_step(self, batch, batch_index):
        waves, targets = batch
        loss = -(targets * F.log_softmax(self(waves), dim=1)).sum(dim=1).mean()
        if batch_index % 100 == 0:
            print(f"epoch {self.current_epoch} batch {batch_index} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.settings.lr, fused=True)


def main() -> None:
    settings = Settings()
    rng = np.random.default_rng(23)
    catalogue = Catalogue([record(settings, rng) for _ in range(settings.recordings)])
    loader = DataLoader(
        catalogue,
        batch_size=settings.batch_size,
        shuffle=True,
        drop_last=True,
        collate_fn=PickCollator(settings.pick_width),
    )
    trainer = L.Trainer(
        max_epochs=settings.epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(Picker(settings), loader)


if __name__ == "__main__":
    main()
