"""Forecast the next six hours of a power meter from the last two days."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Settings:
    history: int = 48
    horizon: int = 6
    batch: int = 64
    hidden: int = 128
    rate: float = 1e-3
    loader_processes: int = 8
    epochs: int = 12
    seed: int = 19


class MeterWindows(Dataset):
    def __init__(self, series, settings):
        self.series = series
        self.settings = settings

    def __len__(self):
        return len(self.series) - self.settings.history - self.settings.horizon

    def __getitem__(self, start):
        middle = start + self.settings.history
        return self.series[start:middle], self.series[middle : middle + self.settings.horizon]

    def __getitems__(self, starts):
        # one gather for the whole batch
        at = torch.tensor(starts)[:, None] + torch.arange(self.settings.history + self.settings.horizon)
        return self.series[at].split([self.settings.history, self.settings.horizon], dim=1)


def as_is(windows):
    return windows


def simulated_meter(length):
    hours = torch.arange(length, dtype=torch.float32)
    daily = torch.sin(hours * 2 * torch.pi / 24)
    weekly = torch.sin(hours * 2 * torch.pi / 168)
    return daily + 0.5 * weekly + 0.2 * torch.randn(length)


class Forecaster:
    def __init__(self, settings):
        self.settings = settings
        self.net = nn.Sequential(
            nn.Linear(settings.history, settings.hidden),
            nn.GELU(),
            nn.Linear(settings.hidden, settings.hidden),
            nn.GELU(),
            nn.Linear(settings.hidden, settings.horizon),
        )
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=settings.rate, fused=True)

    def loader(self, series):
        workers = self.settings.loader_processes
        return DataLoader(
            MeterWindows(series, self.settings),
            batch_size=self.settings.batch,
            shuffle=True,
            collate_fn=as_is,
            num_workers=workers,
            persistent_workers=workers > 0,
        )

    def fit(self, series):
        loader = self.loader(series)
        for epoch in range(self.settings.epochs):
            total = torch.zeros(())
            for past, future in loader:
                loss = nn.functional.l1_loss(self.net(past), future)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.detach()
            print(f"epoch {epoch}  mae {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    settings = Settings()
    torch.manual_seed(settings.seed)
    Forecaster(settings).fit(simulated_meter(400_000))
