"""Classify rolling-bearing damage from wavelet scalograms of vibration records."""

import argparse

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONDITIONS = ("sound", "inner race", "outer race", "ball", "cage")
DEFECT_HZ = (0.0, 162.2, 107.4, 141.2, 11.9)


def simulate_rig(runs_per_condition: int, seconds: float, rate: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Accelerometer records: shaft harmonics, resonance ringing at the defect frequency, and noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    records, labels = [], []
    for label, defect in enumerate(DEFECT_HZ):
        for _ in range(runs_per_condition):
            shaft = rng.uniform(28.0, 31.0)
            x = sum(a * np.sin(2 * np.pi * k * shaft * t) for k, a in ((1, 0.6), (2, 0.3), (3, 0.15)))
            if defect:
                phase = (t * defect * shaft / 29.95) % 1.0
                x += rng.uniform(0.7, 1.3) * np.exp(-18 * phase) * np.sin(2 * np.pi * rng.uniform(2600, 3100) * t)
            records.append(x + 0.4 * rng.standard_normal(len(t)))
            labels.append(label)
    return np.stack(records).astype(np.float32), np.array(labels)


def morlet_bank(length: int, rate: int, bands: int) -> np.ndarray:
    """Frequency responses of Morlet wavelets between 40 Hz and 5 kHz, one row per band."""
    freq = np.fft.fftfreq(length, 1 / rate)
    centre = np.geomspace(40.0, 5000.0, bands)[:, None]
    bank = np.exp(-0.5 * ((freq[None] - centre) / (0.12 * centre)) ** 2)
    return (2.0 * bank * (freq > 0)).astype(np.float32)


class ScalogramWindows(Dataset):
    """Random windows of the records, disturbed and turned into log scalograms."""

    def __init__(self, records: np.ndarray, labels: np.ndarray, rate: int, window: int, bands: int, size: int):
        self.records, self.labels, self.window, self.size = records, labels, window, size
        self.bank = morlet_bank(window, rate, bands)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        rng = np.random.default_rng(torch.randint(2**31, (1,)).item())
        row = index % len(self.records)
        start = rng.integers(self.records.shape[1] - self.window)
        x = self.records[row, start : start + self.window] * rng.uniform(0.8, 1.25)
        x = x + rng.uniform(0.05, 0.4) * rng.standard_normal(self.window)
        spectrum = np.fft.fft(x - x.mean())
        power = np.abs(np.fft.ifft(spectrum[None] * self.bank, axis=1)) ** 2
        image = np.log(power.reshape(len(self.bank), 64, -1).mean(axis=2) + 1e-4)
        return torch.from_numpy(image.astype(np.float32))[None], int(self.labels[row])


class RigData(L.LightningDataModule):
    def __init__(self, rate: int, window: int, bands: int, batch_size: int, workers: int):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage: str) -> None:
        records, labels = simulate_rig(runs_per_condition=12, seconds=4.0, rate=self.hparams.rate, seed=3)
        self.windows = ScalogramWindows(
            records, labels, self.hparams.rate, self.hparams.window, self.hparams.bands, size=6000
        )

    def train_dataloader(self) -> DataLoader:
        return DataLoader(
            self.windows,
            batch_size=self.hparams.batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=self.hparams.workers,
            persistent_workers=True,
        )


class DamageNet(L.LightningModule):
    def __init__(self, width: int, lr: float):
        super().__init__()
        self.lr = lr
        stages, channels = [], 1
        for out in (width, 2 * width, 4 * width):
            stages += [nn.Conv2d(channels, out, 3, stride=2, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            stages += [nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            channels = out
        self.features = nn.Sequential(*stages)
        self.head = nn.Linear(channels, len(CONDITIONS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).mean(dim=(2, 3)))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        image, label = batch
        loss = F.cross_entropy(self(image), label)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-2, fused=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    L.seed_everything(11)
    data = RigData(rate=12_000, window=8192, bands=64, batch_size=args.batch_size, workers=args.workers)
    trainer = L.Trainer(
        max_epochs=args.epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(DamageNet(args.width, lr=2e-3), datamodule=data)
    print({name: round(value.item(), 4) for name, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
