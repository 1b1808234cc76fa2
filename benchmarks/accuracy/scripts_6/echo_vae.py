"""Convolutional VAE on simulated ultrasound echoes (time by transducer), Lightning."""

from __future__ import annotations

from dataclasses import dataclass

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass(frozen=True)
class Settings:
    samples: int = 19_200
    batch_size: int = 32
    latent: int = 24
    width: int = 24
    beta_until: int = 1500
    lr: float = 8e-4
    epochs: int = 8


class Echoes(Dataset):
    """Echo images of 64 by 64: a few reflectors, each a hyperbola in time over the transducers, with speckle."""

    side = 64

    def __init__(self, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.depth = rng.integers(4, 40, (count, 3, 1)).astype(np.float32)
        self.place = rng.integers(0, self.side, (count, 3, 1)).astype(np.float32)
        self.strength = rng.uniform(0.3, 1.0, (count, 3, 1)).astype(np.float32)
        self.columns = np.arange(self.side)
        self.speckle = rng.normal(0, 0.05, (64, self.side, self.side)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.depth)

    def __getitem__(self, index: int) -> torch.Tensor:
        image = self.speckle[index % 64].copy()
        delay = np.sqrt(self.depth[index] ** 2 + 0.35 * (self.columns - self.place[index]) ** 2)
        image[np.minimum(delay.astype(np.int64), self.side - 1), self.columns] += self.strength[index]
        return torch.from_numpy(image[None])


class EchoVAE(L.LightningModule):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        width = settings.width
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2),
            nn.SiLU(),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(2 * width, 2 * width, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(2 * width, 16, 4, stride=2, padding=1),
            nn.Flatten(),
            nn.Linear(16 * 64, 2 * settings.latent),
        )
        self.decoder = nn.Sequential(
            nn.Linear(settings.latent, 16 * 64),
            nn.Unflatten(1, (16, 8, 8)),
            nn.ConvTranspose2d(16, 2 * width, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(2 * width, 2 * width, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(width, 1, 5, padding=2),
        )

    def _terms(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        latent = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        fit = F.mse_loss(self.decoder(latent), images, reduction="sum") / len(images)
        spread = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return fit, spread

    def training_step(self, images: torch.Tensor, _: int) -> torch.Tensor:
        fit, spread = self._terms(images)
        return fit + min(1.0, self.global_step / self.settings.beta_until) * spread

    def validation_step(self, images: torch.Tensor, _: int) -> None:
        fit, spread = self._terms(images)
        self.log_dict({"fit": fit, "spread": spread}, on_epoch=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.settings.lr, fused=True)


class Tell(L.Callback):
    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        found = {name: round(float(value), 3) for name, value in trainer.callback_metrics.items()}
        print(f"epoch {trainer.current_epoch}, step {trainer.global_step}: {found}", flush=True)


def loaders(settings: Settings) -> tuple[DataLoader, DataLoader]:
    train = DataLoader(Echoes(settings.samples, seed=0), settings.batch_size, shuffle=True, drop_last=True)
    held_out = DataLoader(Echoes(256, seed=1), settings.batch_size)
    return train, held_out


def main() -> None:
    L.seed_everything(4)
    settings = Settings()
    train, held_out = loaders(settings)
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=settings.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[Tell()],
    )
    trainer.fit(EchoVAE(settings), train, held_out)


if __name__ == "__main__":
    main()
