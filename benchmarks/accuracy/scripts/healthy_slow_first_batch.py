"""Embeds molecules with Lightning. The table of fingerprints is filled when it is first asked for."""

import time

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BITS, COUNT = 512, 30_000


class Molecules(Dataset):
    def __init__(self):
        self.table = None

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        if self.table is None:
            time.sleep(1.5)  # reads the table from the share, once
            self.table = (torch.rand(COUNT, BITS) < 0.1).float()
        bits = self.table[index]
        return bits, bits[:8].sum()


class Property(pl.LightningModule):
    def __init__(self, width=512):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(BITS, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 1),
        )  # fmt: skip

    def training_step(self, batch, _):
        bits, value = batch
        return nn.functional.mse_loss(self.net(bits).squeeze(1), value)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


if __name__ == "__main__":
    loader = DataLoader(Molecules(), batch_size=128, shuffle=True)
    trainer = pl.Trainer(
        max_epochs=5, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(Property(), loader)
