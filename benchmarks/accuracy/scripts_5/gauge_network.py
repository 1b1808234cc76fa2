"""Forecast the water level at every gauge of a river network, three hours ahead, with a diffusion graph network."""

import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    gauges: int = 288
    history: int = 24
    horizon: int = 12
    hours: int = 6000
    width: int = 40
    layers: int = 3
    hops: int = 2
    batch: int = 48
    steps: int = 6000
    lr: float = 2e-3
    weight_decay: float = 1e-4
    report_every: int = 100
    seed: int = 11


def river(cfg: Config, generator: torch.Generator) -> torch.Tensor:
    """Row-normalised flow from each gauge to those below it, and a little backwater."""
    adjacency = torch.zeros(cfg.gauges, cfg.gauges)
    for gauge in range(1, cfg.gauges):
        below = int(torch.randint(max(0, gauge - 6), gauge, (1,), generator=generator))
        adjacency[below, gauge] = 1.0
        adjacency[gauge, below] = 0.2
    adjacency += torch.eye(cfg.gauges)
    return adjacency / adjacency.sum(dim=1, keepdim=True)


def levels(cfg: Config, flow: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Hourly levels (hours, gauges): rain that comes in events, routed down the network."""
    hour = torch.arange(cfg.hours)
    season = torch.sin(2 * torch.pi * hour / 720)
    state = torch.zeros(cfg.gauges)
    series = torch.empty(cfg.hours, cfg.gauges)
    events = torch.rand(cfg.hours, generator=generator) < 0.03
    for step in range(cfg.hours):
        rain = torch.rand(cfg.gauges, generator=generator) * 2.0 if events[step] else 0.0
        state = 0.97 * (flow @ state) + rain + 0.05 * season[step]
        series[step] = state
    return (series - series.mean(dim=0)) / (series.std(dim=0) + 1e-6)


class DiffusionLayer(nn.Module):
    """Mixes each gauge with its neighbours of one to `hops` steps away, then across channels."""

    def __init__(self, width: int, hops: int) -> None:
        super().__init__()
        self.hops = hops
        self.mix = nn.Linear(width * (hops + 1), 2 * width)

    def forward(self, x: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
        seen = [x]
        for _ in range(self.hops):
            seen.append(torch.matmul(flow, seen[-1]))
        value, gate = self.mix(torch.cat(seen, dim=-1)).chunk(2, dim=-1)
        return x + torch.tanh(value) * torch.sigmoid(gate)


class GaugeNet(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.embed = nn.Linear(cfg.history, cfg.width)
        self.layers = nn.ModuleList(DiffusionLayer(cfg.width, cfg.hops) for _ in range(cfg.layers))
        self.head = nn.Linear(cfg.width, cfg.horizon)

    def forward(self, past: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.embed(past))
        for layer in self.layers:
            x = layer(x, flow)
        return self.head(x)


class Windows:
    """Random windows of the series, cut out of one tensor by index."""

    def __init__(self, series: torch.Tensor, cfg: Config) -> None:
        self.views = series.unfold(0, cfg.history + cfg.horizon, 1)
        self.cfg = cfg

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.randint(len(self.views), (self.cfg.batch,))
        windows = self.views[chosen]
        return windows[..., : self.cfg.history], windows[..., self.cfg.history :]


def optimizer_of(model: nn.Module, cfg: Config) -> torch.optim.Optimizer:
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": cfg.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=cfg.lr, foreach=False, fused=False)


def fit(cfg: Config) -> None:
    torch.manual_seed(cfg.seed)
    generator = torch.Generator().manual_seed(cfg.seed)
    flow = river(cfg, generator)
    windows = Windows(levels(cfg, flow, generator), cfg)
    model = GaugeNet(cfg)
    optimizer = optimizer_of(model, cfg)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.steps)
    running, began = torch.zeros(()), time.perf_counter()
    for step in range(1, cfg.steps + 1):
        past, future = windows.draw()
        loss = F.smooth_l1_loss(model(past, flow), future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        running += loss.detach()
        if step % cfg.report_every == 0:
            rate = step / (time.perf_counter() - began)
            print(f"step {step} loss {running.item() / cfg.report_every:.4f} {rate:.1f} steps/s", flush=True)
            running.zero_()


if __name__ == "__main__":
    fit(Config())
