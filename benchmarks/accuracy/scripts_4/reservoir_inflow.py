"""Day-ahead inflow of nine reservoirs from weather and snow, with Lightning."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HISTORY, HORIZON, SITES, DRIVERS = 48, 12, 9, 14


def synthetic_basin(windows: int, seed: int) -> TensorDataset:
    g = torch.Generator().manual_seed(seed)
    phase = 6.28 * torch.rand(windows, 1, 1, generator=g)
    hours = torch.arange(HISTORY + HORIZON).view(1, -1, 1) / 24 * 6.28
    drivers = torch.sin(hours + phase + torch.arange(DRIVERS)) + 0.3 * torch.randn(
        windows, HISTORY + HORIZON, DRIVERS, generator=g
    )
    response = torch.randn(DRIVERS, SITES, generator=torch.Generator().manual_seed(1))
    inflow = torch.relu(drivers.cumsum(1) / 12 @ response)
    return TensorDataset(drivers[:, :HISTORY], inflow[:, HISTORY:])


class BasinData(L.LightningDataModule):
    def __init__(self, windows: int = 25600, batch: int = 64, held_out: int = 1280) -> None:
        super().__init__()
        self.windows, self.batch, self.held_out = windows, batch, held_out

    def setup(self, stage: str | None = None) -> None:
        self.past = synthetic_basin(self.windows, seed=3)
        self.last_winter = synthetic_basin(self.held_out, seed=4)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.past, batch_size=self.batch, shuffle=True, drop_last=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.last_winter, batch_size=2 * self.batch)


class InflowMixer(L.LightningModule):
    """Mixes over time and over drivers in turn; one head for all the sites."""

    def __init__(self, width: int = 160, blocks: int = 4, lr: float = 1e-3) -> None:
        super().__init__()
        self.lr = lr
        self.enter = nn.Linear(DRIVERS, width)
        self.over_time = nn.ModuleList(
            nn.Sequential(nn.Linear(HISTORY, 96), nn.GELU(), nn.Linear(96, HISTORY)) for _ in range(blocks)
        )
        self.over_width = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))
            for _ in range(blocks)
        )
        self.leave = nn.Linear(HISTORY, HORIZON)
        self.sites = nn.Linear(width, SITES)

    def forward(self, drivers: torch.Tensor) -> torch.Tensor:
        hidden = self.enter(drivers)
        for time, channel in zip(self.over_time, self.over_width):
            hidden = hidden + time(hidden.transpose(1, 2)).transpose(1, 2)
            hidden = hidden + channel(hidden)
        return self.sites(self.leave(hidden.transpose(1, 2)).transpose(1, 2))

    def training_step(self, batch, index):
        drivers, inflow = batch
        return nn.functional.smooth_l1_loss(self(drivers), inflow)

    def validation_step(self, batch, index):
        drivers, inflow = batch
        error = (self(drivers) - inflow).square().sum((0, 1))
        spread = (inflow - inflow.mean((0, 1))).square().sum((0, 1))
        self.log("nse", (1 - error / spread).mean(), on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr, fused=True)


def build_trainer(data: BasinData, epochs: int = 3, looks: int = 40) -> L.Trainer:
    per_epoch = data.windows // data.batch
    return L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        val_check_interval=per_epoch // looks,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        logger=False,
    )


if __name__ == "__main__":
    L.seed_everything(31)
    basin = BasinData()
    build_trainer(basin).fit(InflowMixer(), datamodule=basin)
