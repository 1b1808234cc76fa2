"""Forecast the stage of a river gauge two days ahead from upstream rain, soil moisture and its own past."""

import json
import math
import time
from dataclasses import dataclass, fields
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

HISTORY, AHEAD = 72, 16
QUANTILES = torch.tensor([0.01, 0.25, 0.5, 0.75, 0.99])


@dataclass
class Settings:
    gauges: int = 60
    hours: int = 3000
    hidden: int = 96
    layers: int = 4
    batch: int = 128
    steps: int = 6000
    report_each: int = 200
    lr: float = 2e-3
    clip: float = 1.0
    journal: str = "journal.jsonl"


def synthetic_catchments(gauges: int, hours: int) -> torch.Tensor:
    """(gauges, hours, 4): rain, soil moisture, stage and the season, at three-hourly spacing."""
    rain = torch.relu(torch.randn(gauges, hours) - 1.2) * (1 + torch.rand(gauges, 1))
    drain, slow = 0.93 + 0.05 * torch.rand(gauges), 0.80 + 0.15 * torch.rand(gauges)
    season = 0.5 * torch.sin(2 * math.pi * torch.arange(hours) / 2920).expand(gauges, -1)
    soil, stage = torch.zeros(gauges, hours), torch.zeros(gauges, hours)
    for hour in range(1, hours):
        soil[:, hour] = drain * soil[:, hour - 1] + 0.1 * rain[:, hour]
        runoff = rain[:, hour] * torch.sigmoid(4 * soil[:, hour] - 1)
        stage[:, hour] = slow * stage[:, hour - 1] + runoff
    return torch.stack([rain, soil, stage, season], dim=2)


class StageForecaster(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        wide = settings.hidden
        self.entry = nn.Conv1d(4, wide, 3, padding=1)
        self.mixers = nn.ModuleList()
        for depth in range(settings.layers):
            causal = nn.Conv1d(wide, 2 * wide, 3, padding=2 * 2**depth, dilation=2**depth)
            self.mixers.append(nn.ModuleDict({"gate": causal, "out": nn.Conv1d(wide, wide, 1)}))
        self.memory = nn.GRU(wide, wide, batch_first=True)
        self.exit = nn.Linear(wide, AHEAD)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        x = self.entry(past.transpose(1, 2))
        for mixer in self.mixers:
            x = x + mixer["out"](F.glu(mixer["gate"](x)[..., : x.shape[-1]], dim=1))
        _, state = self.memory(x[..., ::6].transpose(1, 2))
        return past[:, -1:, 2] + self.exit(state[-1])


class TrainingJournal:
    """Writes one line of JSON for a step: loss, and how weights and gradients of each tensor are spread."""

    def __init__(self, path: str):
        self.file = Path(path).open("w", encoding="utf-8")
        self.began = time.perf_counter()

    def write(self, step: int, loss: torch.Tensor, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        line = {"step": step, "seconds": time.perf_counter() - self.began, "loss": loss.item()}
        line["lr"] = [group["lr"] for group in optimizer.param_groups]
        for name, weight in model.named_parameters():
            line[name] = {"weight": self.spread(weight.detach()), "grad": self.spread(weight.grad)}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    @staticmethod
    def spread(values: torch.Tensor) -> dict[str, float | list[float]]:
        flat = values.flatten()
        return {
            "norm": flat.norm().item(),
            "mean": flat.mean().item(),
            "std": flat.std(correction=0).item(),
            "quantiles": torch.quantile(flat, QUANTILES).tolist(),
            "histogram": torch.histc(flat, bins=30).tolist(),
        }


def windows(series: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    gauge = torch.randint(series.shape[0], (count, 1))
    start = torch.randint(series.shape[1] - HISTORY - AHEAD, (count, 1))
    cut = series[gauge, start + torch.arange(HISTORY + AHEAD)]
    return cut[:, :HISTORY], cut[:, HISTORY:, 2]


def run(settings: Settings) -> None:
    series = synthetic_catchments(settings.gauges, settings.hours)
    model = StageForecaster(settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.steps)
    journal = TrainingJournal(settings.journal)
    running = torch.zeros(())
    for step in range(1, settings.steps + 1):
        past, future = windows(series, settings.batch)
        loss = F.smooth_l1_loss(model(past), future)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        schedule.step()
        journal.write(step, loss, model, optimizer)
        running += loss.detach()
        if step % settings.report_each == 0:
            print(f"{step:5d}  loss {running.item() / settings.report_each:.5f}", flush=True)
            running.zero_()


if __name__ == "__main__":
    torch.manual_seed(29)
    chosen = Settings()
    print(", ".join(f"{field.name}={getattr(chosen, field.name)}" for field in fields(chosen)))
    run(chosen)
