"""Trains a siamese network with Lightning and keeps a checkpoint of every five hundredth step."""

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Siamese(pl.LightningModule):
    def __init__(self, features=128, width=640):
        super().__init__()
        self.tower = nn.Sequential(
            nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 32)
        )

    def training_step(self, batch, _):
        left, right, same = batch
        distance = (self.tower(left) - self.tower(right)).square().sum(1)
        return (same * distance + (1 - same) * nn.functional.relu(1 - distance)).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main():
    left, right = torch.randn(2, 50_000, 128)
    pairs = TensorDataset(left, right, (left[:, 0] * right[:, 0] > 0).float())
    trainer = pl.Trainer(
        max_epochs=10,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        callbacks=[ModelCheckpoint("saved", every_n_train_steps=500)],
    )
    trainer.fit(Siamese(), DataLoader(pairs, batch_size=96, shuffle=True))


if __name__ == "__main__":
    main()
