"""Daily discharge of rivers from weather and catchment attributes, with an LSTM over a year of forcing."""

import argparse
from typing import NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

DEFAULTS = {
    "basins": 40,
    "days": 2200,
    "history": 365,
    "stride": 5,
    "hidden": 320,
    "samples_per_step": 1,
    "lr": 5e-4,
    "passes": 4,
    "dropout": 0.2,
}


class Archive(NamedTuple):
    forcing: Tensor
    attributes: Tensor
    discharge: Tensor


def simulated(basins: int, days: int, seed: int) -> Archive:
    """A bucket model with snow: rain, temperature, radiation and wind in, discharge out."""
    draw = torch.Generator().manual_seed(seed)
    attributes = torch.rand(basins, 10, generator=draw)
    season = torch.sin(torch.arange(days) * 2 * torch.pi / 365.0)
    warmth = 8 + 12 * season + 6 * (attributes[:, :1] - 0.5) + 3 * torch.randn(basins, days, generator=draw)
    wet = torch.rand(basins, days, generator=draw) < 0.35
    rain = wet * torch.empty(basins, days).exponential_(0.15, generator=draw)
    others = torch.randn(basins, days, 3, generator=draw)
    forcing = torch.cat([torch.stack([rain / 8, warmth / 12], dim=2), others], dim=2)
    snow, store = torch.zeros(basins), torch.full((basins,), 30.0)
    release = 0.02 + 0.1 * attributes[:, 1]
    discharge = torch.empty(basins, days)
    for day in range(days):
        frozen = (warmth[:, day] < 0) * rain[:, day]
        melt = torch.minimum(snow, (warmth[:, day] * 0.6).clamp_min(0))
        snow += frozen - melt
        store += rain[:, day] - frozen + melt
        discharge[:, day] = release * store
        store *= 1 - release - 0.01
    scale = discharge.std(dim=1, keepdim=True)
    return Archive(forcing, attributes, discharge / scale)


class Windows(Dataset):
    """The history before a day in one basin, with the discharge of that day."""

    def __init__(self, archive: Archive, history: int, stride: int):
        self.archive, self.history = archive, history
        days = range(history, archive.forcing.shape[1], stride)
        self.places = [(basin, day) for basin in range(len(archive.forcing)) for day in days]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, at: int) -> tuple[Tensor, Tensor, Tensor]:
        basin, day = self.places[at]
        forcing = self.archive.forcing[basin, day - self.history + 1 : day + 1]
        return forcing, self.archive.attributes[basin], self.archive.discharge[basin, day]


class RunoffLSTM(nn.Module):
    def __init__(self, forcings: int, attributes: int, hidden: int, dropout: float):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(attributes, 16), nn.Tanh())
        self.lstm = nn.LSTM(forcings + 16, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(hidden, 1))
        with torch.no_grad():
            self.lstm.bias_hh_l0[hidden : 2 * hidden] = 3.0

    def forward(self, forcing: Tensor, attributes: Tensor) -> Tensor:
        place = self.embed(attributes)[:, None].expand(-1, forcing.shape[1], -1)
        states, _ = self.lstm(torch.cat([forcing, place], dim=2))
        return self.head(states[:, -1]).squeeze(1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in DEFAULTS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    parser.add_argument("--seed", type=int, default=3)
    return parser.parse_args()


def main() -> None:
    options = parsed()
    set_seed(options.seed)
    accelerator = Accelerator(cpu=True)
    archive = simulated(options.basins, options.days, options.seed)
    windows = Windows(archive, options.history, options.stride)
    loader = DataLoader(windows, batch_size=options.samples_per_step, shuffle=True, drop_last=True)
    model = RunoffLSTM(archive.forcing.shape[2], archive.attributes.shape[1], options.hidden, options.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    model.train()
    for number in range(options.passes):
        total = torch.zeros(())
        for at, (forcing, attributes, discharge) in enumerate(loader, 1):
            loss = nn.functional.smooth_l1_loss(model(forcing, attributes), discharge)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            total += loss.detach()
            if at % 100 == 0:
                accelerator.print(f"pass {number}, step {at} of {len(loader)}: {total.item() / 100:.4f}")
                total.zero_()


if __name__ == "__main__":
    main()
