"""Learns to locate sources in simulated sky images; two workers that live on prepare them in time."""

import time

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sky(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        time.sleep(0.001)  # the calibration server
        draw = torch.Generator().manual_seed(index)
        image = 0.1 * torch.randn(1, 32, 32, generator=draw)
        y, x = torch.randint(32, (2,), generator=draw).tolist()
        image[0, y, x] += 3
        return image, torch.tensor([y / 32, x / 32])


class Locator(pl.LightningModule):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2), nn.ReLU(), nn.Flatten(),
            nn.Linear(width * 15 * 15, 2),
        )  # fmt: skip

    def training_step(self, batch, _):
        image, place = batch
        return nn.functional.mse_loss(self.net(image), place)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(workers=2):
    loader = DataLoader(Sky(), batch_size=16, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    trainer = pl.Trainer(
        max_epochs=100, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(Locator(), loader)


if __name__ == "__main__":
    main()
