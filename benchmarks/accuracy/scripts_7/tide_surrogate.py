"""Learn a surrogate of an estuary model: from tide, wind and river inflow to the level at every gauge."""

import os
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import nn

GAUGES = 24
FORCINGS = 6


@dataclass
class Net:
    hidden: int = 160
    blocks: int = 4
    kernel: int = 5


@dataclass
class Run:
    hours: int = 144
    scenarios: int = 6144
    batch: int = 48
    lr: float = 1e-3
    steps: int = 6000
    save_every: int = 25
    print_every: int = 100
    folder: Path = Path("tide_run")
    net: Net = field(default_factory=Net)


def simulate(run: Run) -> tuple[torch.Tensor, torch.Tensor]:
    """Forcings (scenario, forcing, hour) and levels (scenario, gauge, hour) of a linear estuary with a soft floor."""
    torch.manual_seed(1)
    hour = torch.arange(run.hours, dtype=torch.float32)
    speeds = torch.tensor([2 * torch.pi / period for period in (12.42, 12.0, 25.82)])
    phase = 2 * torch.pi * torch.rand(run.scenarios, 3, 1)
    tides = torch.sin(speeds[:, None] * hour + phase) * torch.tensor([1.0, 0.4, 0.3])[:, None]
    slow = torch.randn(run.scenarios, 3, run.hours // 12)
    weather = nn.functional.interpolate(slow, size=run.hours, mode="linear")
    forcings = torch.cat([tides, weather], dim=1)
    response = torch.randn(GAUGES, FORCINGS, 7) * torch.linspace(1.0, 0.2, 7)
    levels = nn.functional.conv1d(nn.functional.pad(forcings, (6, 0)), response / 3)
    return forcings, nn.functional.softplus(levels + 1.0) + 0.02 * torch.randn_like(levels)


class Residual(nn.Module):
    def __init__(self, net: Net, dilation: int) -> None:
        super().__init__()
        self.reach = (net.kernel - 1) * dilation
        self.mix = nn.Conv1d(net.hidden, net.hidden, net.kernel, dilation=dilation)
        self.gate = nn.Conv1d(net.hidden, 2 * net.hidden, 1)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        mixed = torch.relu(self.mix(nn.functional.pad(state, (self.reach, 0))))
        return state + nn.functional.glu(self.gate(mixed), dim=1)


class Surrogate(nn.Module):
    def __init__(self, net: Net) -> None:
        super().__init__()
        self.enter = nn.Conv1d(FORCINGS, net.hidden, 1)
        self.blocks = nn.Sequential(*(Residual(net, 2**number) for number in range(net.blocks)))
        self.leave = nn.Conv1d(net.hidden, GAUGES, 1)

    def forward(self, forcings: torch.Tensor) -> torch.Tensor:
        return self.leave(self.blocks(self.enter(forcings)))


class Snapshots:
    """The last state of the run, to go on from when the node is taken away."""

    def __init__(self, run: Run) -> None:
        self.path = run.folder / "last.pt"
        self.about = asdict(run.net)
        run.folder.mkdir(parents=True, exist_ok=True)

    def write(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        part = self.path.with_suffix(".part")
        state = {"step": step, "net": self.about, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, part)
        os.replace(part, self.path)

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        if not self.path.exists():
            return 0
        state = torch.load(self.path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return state["step"]


def batches(forcings: torch.Tensor, levels: torch.Tensor, size: int):
    while True:
        order = torch.randperm(len(forcings))
        for rows in order.split(size):
            yield forcings[rows], levels[rows]


def fit(run: Run) -> None:
    forcings, levels = simulate(run)
    levels = (levels - levels.mean((0, 2), keepdim=True)) / levels.std((0, 2), keepdim=True)
    model = Surrogate(run.net)
    optimizer = torch.optim.Adam(model.parameters(), lr=run.lr, fused=True)
    snapshots = Snapshots(run)
    done = snapshots.restore(model, optimizer)
    torch.manual_seed(random.Random(done).randrange(2**31))
    for step, (inputs, targets) in enumerate(batches(forcings, levels, run.batch), start=done + 1):
        loss = nn.functional.huber_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % run.save_every == 0:
            snapshots.write(step, model, optimizer)
        if step % run.print_every == 0:
            print(f"{step:6d}  {loss.item():.5f}", flush=True)
        if step >= run.steps:
            break


if __name__ == "__main__":
    fit(Run())
