"""Forecast the next half day at a tide gauge from the last four days (hourly levels, synthetic harbours)."""

from dataclasses import dataclass

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class TideConfig:
    harbours: int = 1600
    history: int = 96
    horizon: int = 12
    hidden: int = 160
    batch_size: int = 2
    lr: float = 4e-4
    epochs: int = 8
    seed: int = 11


def simulate_levels(cfg):
    """Sum of the main constituents with random phases plus a little surge noise."""
    periods = torch.tensor([12.42, 12.00, 12.66, 23.93, 25.82])
    amplitude = torch.rand(cfg.harbours, 5, 1) * torch.tensor([2.0, 0.8, 0.4, 0.3, 0.2]).view(1, 5, 1)
    phase = torch.rand(cfg.harbours, 5, 1) * 6.2832
    hours = torch.arange(cfg.history + cfg.horizon).view(1, 1, -1)
    levels = (amplitude * torch.cos(6.2832 * hours / periods.view(1, 5, 1) + phase)).sum(1)
    levels = levels + 0.05 * torch.randn_like(levels)
    return levels[:, : cfg.history, None], levels[:, cfg.history :]


class TideForecaster(L.LightningModule):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.encoder = nn.GRU(1, cfg.hidden, num_layers=2, batch_first=True)
        self.head = nn.Sequential(nn.Linear(cfg.hidden, cfg.hidden), nn.GELU(), nn.Linear(cfg.hidden, cfg.horizon))

    def forward(self, history):
        _, state = self.encoder(history)
        return self.head(state[-1])

    def training_step(self, batch, batch_idx):
        history, future = batch
        return F.smooth_l1_loss(self(history), future)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.cfg.lr, fused=True)


def main():
    cfg = TideConfig()
    L.seed_everything(cfg.seed)
    loader = DataLoader(TensorDataset(*simulate_levels(cfg)), batch_size=cfg.batch_size, shuffle=True)
    trainer = L.Trainer(
        max_epochs=cfg.epochs,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(TideForecaster(cfg), loader)


if __name__ == "__main__":
    main()
