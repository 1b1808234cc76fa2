"""Air quality at 48 stations, one tiny head per station on a shared trunk (numbers from the 2019 campaign)."""
import dataclasses
import time

import torch
import torch.nn as nn


@dataclasses.dataclass
class Settings:
    stations: int = 48
    inputs: int = 20
    trunk: int = 96
    head: int = 24
    batch: int = 256
    iterations: int = 6000
    lr: float = 1e-3
    wd: float = 1e-4
    vectorised_update: bool = False  # same numbers as in the paper's runs


class StationHead(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.norm = nn.LayerNorm(s.trunk)
        self.hidden = nn.Linear(s.trunk, s.head)
        self.out = nn.Linear(s.head, 1)

    def forward(self, h):
        return self.out(torch.relu(self.hidden(self.norm(h))))


class AirModel(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(s.inputs, s.trunk), nn.Tanh(), nn.Linear(s.trunk, s.trunk), nn.Tanh())
        self.heads = nn.ModuleList(StationHead(s) for _ in range(s.stations))

    def forward(self, weather):
        h = self.trunk(weather)
        return torch.cat([head(h) for head in self.heads], dim=1)


class Measurements:
    """Hourly weather and the NO2 of all stations, drawn with replacement."""

    def __init__(self, s: Settings, hours: int = 50_000):
        g = torch.Generator().manual_seed(99)
        self.weather = torch.randn(hours, s.inputs, generator=g)
        mixing = torch.randn(s.inputs, s.stations, generator=g) / s.inputs**0.5
        self.no2 = torch.relu(self.weather @ mixing) + 0.1 * torch.randn(hours, s.stations, generator=g)
        self.g = g

    def batch(self, n):
        rows = torch.randint(len(self.weather), (n,), generator=self.g)
        return self.weather[rows], self.no2[rows]


def fit(s: Settings):
    torch.manual_seed(99)
    data, model = Measurements(s), AirModel(s)
    adam = torch.optim.Adam(model.parameters(), lr=s.lr, weight_decay=s.wd, foreach=s.vectorised_update)
    began = time.perf_counter()
    for k in range(1, s.iterations + 1):
        weather, no2 = data.batch(s.batch)
        loss = (model(weather) - no2).pow(2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        if k % 250 == 0:
            rate = k / (time.perf_counter() - began)
            print(f"{k:5d}  rmse {loss.item() ** 0.5:.3f}  {rate:.1f} it/s", flush=True)
    return model


if __name__ == "__main__":
    trained = fit(Settings())
    torch.save(trained.state_dict(), "stations.pt")
