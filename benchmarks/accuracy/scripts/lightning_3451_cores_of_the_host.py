"""Denoises sensor traces with Lightning; the worker count is what the login node suggested."""

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

NUM_WORKERS = 16  # nproc on the login node
BATCH = 32


class Traces(Dataset):
    """Simulates one noisy trace and its clean target."""

    def __init__(self, count, length=2048):
        self.count, self.length = count, length

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        draw = np.random.default_rng(index)
        clean = np.cumsum(draw.normal(0, 0.05, self.length))
        clean = np.convolve(clean, np.ones(64) / 64, mode="same")
        noisy = clean + draw.normal(0, 0.2, self.length)
        return torch.from_numpy(noisy).float(), torch.from_numpy(clean).float()


class Denoiser(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 16, 15, padding=7), nn.GELU(), nn.Conv1d(16, 1, 15, padding=7))

    def training_step(self, batch, _):
        noisy, clean = batch
        loss = nn.functional.l1_loss(self.net(noisy.unsqueeze(1)).squeeze(1), clean)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3, fused=True)


if __name__ == "__main__":
    loader = DataLoader(Traces(1024), batch_size=BATCH, shuffle=True, num_workers=NUM_WORKERS)
    trainer = pl.Trainer(
        max_epochs=20, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(Denoiser(), loader)
