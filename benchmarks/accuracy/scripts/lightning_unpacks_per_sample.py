"""Estimates the age of trees from scans that are kept as compressed arrays, and unpacked whenever one is drawn."""

import io

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, SCANS = 96, 600


def packed_scan(number):
    draw = np.random.default_rng(number)
    rings = draw.integers(5, 40)
    rows, columns = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    scan = 0.5 + 0.5 * np.sin(np.hypot(rows, columns) * rings / 8)
    file = io.BytesIO()
    np.savez_compressed(file, scan=(255 * scan).astype(np.uint8), rings=rings)
    return file.getvalue()


class Scans(Dataset):
    def __init__(self):
        self.packed = [packed_scan(number) for number in range(SCANS)]

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, index):
        with np.load(io.BytesIO(self.packed[index])) as arrays:
            scan, rings = arrays["scan"], arrays["rings"]
        return torch.from_numpy(scan).float()[None] / 255, torch.tensor(float(rings))


class AgeModel(pl.LightningModule):
    def __init__(self, width=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 5, stride=3), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2), nn.ReLU(), nn.Flatten(),
            nn.LazyLinear(1),
        )  # fmt: skip
        self.net(torch.zeros(1, 1, SIDE, SIDE))

    def training_step(self, batch, _):
        scan, rings = batch
        return nn.functional.smooth_l1_loss(self.net(scan).squeeze(1), rings)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


if __name__ == "__main__":
    trainer = pl.Trainer(
        max_epochs=30, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(AgeModel(), DataLoader(Scans(), batch_size=32, shuffle=True))
