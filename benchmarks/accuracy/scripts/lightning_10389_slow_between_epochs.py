"""Fits a small U-shaped network to simulated microscopy crops; short epochs, many of them."""

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __len__(self):
        return 192

    def __getitem__(self, index):
        draw = np.random.default_rng(index)
        mask = np.zeros((48, 48), dtype=np.float32)
        rows, columns = np.mgrid[:48, :48]
        for _ in range(8):
            y, x, r = draw.uniform(4, 44), draw.uniform(4, 44), draw.uniform(1, 5)
            mask[(rows - y) ** 2 + (columns - x) ** 2 < r * r] = 1.0
        image = mask + draw.normal(0, 0.4, mask.shape).astype(np.float32)
        return torch.from_numpy(image).float()[None], torch.from_numpy(mask)[None]


class Segmenter(pl.LightningModule):
    def __init__(self, width=16, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, stride=2, padding=1), nn.ReLU())
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(width, 1, 3, padding=1))

    def training_step(self, batch, _):
        image, mask = batch
        return nn.functional.binary_cross_entropy_with_logits(self.up(self.down(image)), mask)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr, fused=True)


class CropModule(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Crops(), batch_size=16, shuffle=True, num_workers=2)


if __name__ == "__main__":
    trainer = pl.Trainer(
        max_epochs=200,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_checkpointing=False,
        logger=False,
    )
    trainer.fit(Segmenter(), CropModule())
