"""Classify bearing faults from vibration frames of eight accelerometers with an MLP mixer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FAULTS = ("none", "inner race", "outer race", "ball", "cage")


@dataclass(frozen=True)
class Setup:
    sensors: int = 8
    frames: int = 64
    frame: int = 32
    width: int = 128
    depth: int = 3
    batch: int = 64
    train_size: int = 4096
    test_size: int = 256
    epochs: int = 100
    lr: float = 1e-3


class Recording(NamedTuple):
    signal: Tensor
    fault: Tensor


def simulate(setup: Setup, size: int, seed: int) -> Recording:
    """Shaft rotation plus impacts that repeat at the rate of the fault, seen by all sensors with their own gains."""
    noise = torch.Generator().manual_seed(seed)
    fault = torch.randint(len(FAULTS), (size,), generator=noise)
    length = setup.frames * setup.frame
    clock = torch.arange(length) / 2048.0
    rates = torch.tensor([0.0, 23.0, 15.5, 10.2, 1.9])[fault]
    rates = rates * (1.0 + 0.05 * torch.randn(size, generator=noise))
    shaft = torch.sin(2 * torch.pi * 4.3 * clock + 6.3 * torch.rand(size, 1, generator=noise))
    impacts = (torch.cos(2 * torch.pi * rates[:, None] * clock) > 0.97).float() * (fault > 0).float()[:, None]
    source = shaft + impacts * torch.sin(2 * torch.pi * 410.0 * clock)
    gains = torch.rand(size, setup.sensors, 1, generator=noise) + 0.5
    signal = torch.empty(size, setup.sensors, length)
    torch.randn(signal.shape, generator=noise, out=signal)
    signal.mul_(0.3).addcmul_(gains, source[:, None, :])
    frames = signal.view(size, setup.sensors, setup.frames, setup.frame).transpose(1, 2)
    return Recording(frames.reshape(size, setup.frames, -1), fault)


class GatedMLP(nn.Module):
    def __init__(self, width: int, inner: int):
        super().__init__()
        self.enter = nn.Linear(width, 2 * inner)
        self.leave = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.enter(x).chunk(2, dim=-1)
        return self.leave(value * F.silu(gate))


class MixerLayer(nn.Module):
    def __init__(self, frames: int, width: int):
        super().__init__()
        self.before_time = nn.LayerNorm(width)
        self.time = GatedMLP(frames, 2 * frames)
        self.before_channel = nn.LayerNorm(width)
        self.channel = GatedMLP(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.time(self.before_time(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel(self.before_channel(x))


class VibrationMixer(nn.Module):
    def __init__(self, setup: Setup):
        super().__init__()
        self.embed = nn.Linear(setup.sensors * setup.frame, setup.width)
        self.layers = nn.Sequential(*(MixerLayer(setup.frames, setup.width) for _ in range(setup.depth)))
        self.norm = nn.LayerNorm(setup.width)
        self.classify = nn.Linear(setup.width, len(FAULTS))

    def forward(self, frames: Tensor) -> Tensor:
        return self.classify(self.norm(self.layers(self.embed(frames))).mean(dim=1))


class Trial:
    def __init__(self, setup: Setup):
        self.setup = setup
        self.train = simulate(setup, setup.train_size, seed=1)
        self.test = simulate(setup, setup.test_size, seed=2)
        self.model = VibrationMixer(setup)
        self.network = torch.compile(self.model, dynamic=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=setup.lr, weight_decay=0.02, fused=True)

    def epoch(self) -> float:
        self.model.train()
        order = torch.randperm(self.setup.train_size)
        total = torch.zeros(())
        batches = order.split(self.setup.batch)
        for rows in batches:
            loss = F.cross_entropy(self.network(self.train.signal[rows]), self.train.fault[rows], label_smoothing=0.05)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return total.item() / len(batches)

    @torch.no_grad()
    def accuracy(self) -> float:
        self.model.eval()
        parts = zip(self.test.signal.split(self.setup.batch), self.test.fault.split(self.setup.batch))
        right = sum((self.model(frames).argmax(dim=1) == fault).sum() for frames, fault in parts)
        return right.item() / self.setup.test_size

    def run(self) -> None:
        for number in range(1, self.setup.epochs + 1):
            began = time.perf_counter()
            loss = self.epoch()
            took = time.perf_counter() - began
            print(f"epoch {number:3d}  loss {loss:.4f}  test accuracy {self.accuracy():.3f}  {took:.1f} s", flush=True)


if __name__ == "__main__":
    torch.manual_seed(5)
    Trial(Setup()).run()
