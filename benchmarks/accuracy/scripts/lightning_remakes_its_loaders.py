"""Classifies simulated spectra; the loaders are made anew each epoch, although the data stay the same."""

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LINES, CHANNELS = 12, 1024


class Spectra(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        draw = torch.Generator().manual_seed(index)
        axis = torch.arange(CHANNELS).unsqueeze(1)
        centers = torch.rand(160, generator=draw) * CHANNELS
        spectrum = torch.exp(-((axis - centers) ** 2) / 18).sum(1)
        return spectrum + 0.05 * torch.randn(CHANNELS, generator=draw), index % LINES


class SpectraData(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Spectra(), batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(CHANNELS, 256), nn.ReLU(), nn.Linear(256, LINES))

    def training_step(self, batch, _):
        spectrum, label = batch
        return nn.functional.cross_entropy(self.net(spectrum), label)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, fused=True)


if __name__ == "__main__":
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=100,
        reload_dataloaders_every_n_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Classifier(), SpectraData())
