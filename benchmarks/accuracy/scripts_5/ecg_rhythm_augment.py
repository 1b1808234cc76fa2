"""Classify the rhythm of multi-lead ECG strips; every strip is disturbed anew each time it is drawn."""

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RHYTHMS = ("sinus", "bradycardia", "tachycardia", "fibrillation")
RATE_HZ = 250
LENGTH = 2000
LEADS = 6


def draw_strips(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Clean strips: trains of QRS-like pulses whose spacing depends on the rhythm."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(RHYTHMS), count)
    mean_gap = np.array([0.85, 1.3, 0.5, 0.7])[labels] * RATE_HZ
    jitter = np.array([0.03, 0.03, 0.03, 0.28])[labels]
    pulse_time = np.arange(-30, 90) / RATE_HZ
    pulse = np.exp(-((pulse_time / 0.012) ** 2)) + 0.25 * np.exp(-(((pulse_time - 0.2) / 0.04) ** 2))
    strips = np.zeros((count, LEADS, LENGTH), dtype=np.float32)
    for strip, gap, spread in zip(strips, mean_gap, jitter, strict=True):
        gains = rng.uniform(0.4, 1.4, (LEADS, 1)).astype(np.float32)
        at = int(rng.uniform(0, gap))
        while at + len(pulse) < LENGTH:
            strip[:, at : at + len(pulse)] += gains * pulse.astype(np.float32)
            at += max(30, int(gap * (1 + spread * rng.standard_normal())))
    return strips, labels


def coloured_noise(rng: np.random.Generator, exponent: float) -> np.ndarray:
    frequencies = np.fft.rfftfreq(2 * LENGTH, 1 / RATE_HZ)
    frequencies[0] = frequencies[1]
    spectrum = np.fft.rfft(rng.standard_normal((LEADS, 2 * LENGTH))) * frequencies**-exponent
    noise = np.fft.irfft(spectrum)[:, :LENGTH]
    return noise / noise.std()


def warp_time(strip: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    knots = np.cumsum(rng.uniform(0.9, 1.1, 12))
    knots = (knots - knots[0]) / (knots[-1] - knots[0]) * (LENGTH - 1)
    positions = np.interp(np.arange(LENGTH), np.linspace(0, LENGTH - 1, 12), knots)
    return np.stack([np.interp(positions, np.arange(LENGTH), lead) for lead in strip])


def electrode_motion(rng: np.random.Generator) -> np.ndarray:
    """A few sudden shifts of the baseline that die away."""
    time = np.arange(LENGTH) / RATE_HZ
    motion = np.zeros((LEADS, LENGTH))
    for _ in range(rng.integers(2, 6)):
        begin, decay = rng.uniform(0, time[-1]), rng.uniform(0.2, 1.5)
        shape = np.where(time >= begin, np.exp(-np.maximum(time - begin, 0) / decay), 0.0)
        motion += rng.standard_normal((LEADS, 1)) * shape
    return motion


class DisturbedStrips(Dataset):
    def __init__(self, strips: np.ndarray, labels: np.ndarray):
        self.strips = strips
        self.labels = labels

    def __len__(self) -> int:
        return len(self.strips)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        rng = np.random.default_rng(int(torch.randint(2**62, ())))
        strip = warp_time(self.strips[index], rng)
        strip += rng.uniform(0, 0.15) * coloured_noise(rng, 0.0)
        strip += rng.uniform(0, 0.25) * coloured_noise(rng, 0.5)
        strip += rng.uniform(0, 0.4) * coloured_noise(rng, 1.0)
        strip += rng.uniform(0, 0.5) * electrode_motion(rng)
        strip -= strip.mean(axis=1, keepdims=True)
        return torch.from_numpy(strip.astype(np.float32)), int(self.labels[index])


class RhythmData(L.LightningDataModule):
    def __init__(self, count: int = 2048, batch_size: int = 32):
        super().__init__()
        self.count = count
        self.batch_size = batch_size

    def setup(self, stage: str) -> None:
        self.strips = DisturbedStrips(*draw_strips(self.count, seed=11))

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.strips, batch_size=self.batch_size, shuffle=True, drop_last=True)


class RhythmNet(L.LightningModule):
    def __init__(self, width: int = 32, peak_rate: float = 2e-3):
        super().__init__()
        self.peak_rate = peak_rate
        blocks, channels = [], LEADS
        for growth in (1, 1, 2, 2):
            blocks += [
                nn.Conv1d(channels, width * growth, 9, stride=4, padding=4, bias=False),
                nn.BatchNorm1d(width * growth),
                nn.GELU(),
            ]
            channels = width * growth
        self.encoder = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, len(RHYTHMS))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int) -> torch.Tensor:
        strips, labels = batch
        return F.cross_entropy(self.head(self.encoder(strips).mean(dim=2)), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.peak_rate, weight_decay=0.01, fused=True)


def main() -> None:
    L.seed_everything(4, verbose=False)
    trainer = L.Trainer(
        max_epochs=20,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(RhythmNet(), datamodule=RhythmData())


if __name__ == "__main__":
    main()
