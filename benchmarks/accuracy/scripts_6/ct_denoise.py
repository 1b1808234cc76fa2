"""Denoising diffusion on small CT-like volumes: a 3D U-Net learns to predict the noise of a cosine schedule."""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Schedule:
    levels: int = 400

    def keep(self, level: Tensor) -> Tensor:
        angle = (level.float() / self.levels + 0.008) / 1.008 * math.pi / 2
        return torch.cos(angle).square().clamp(1e-4, 0.9999)


def phantoms(count: int, side: int, seed: int) -> Tensor:
    """Ellipsoids of several densities in air, values within -1 and 1."""
    generator = torch.Generator().manual_seed(seed)
    axis = torch.linspace(-1, 1, side)
    grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"))
    volumes = torch.full((count, 1, side, side, side), -1.0)
    for volume in volumes:
        for _ in range(6):
            center = torch.rand(3, 1, 1, 1, generator=generator) * 1.2 - 0.6
            radius = torch.rand(3, 1, 1, 1, generator=generator) * 0.4 + 0.15
            density = torch.rand(1, generator=generator) * 1.6 - 0.8
            inside = ((grid - center) / radius).square().sum(0) < 1
            volume[0][inside] = density
    return volumes


class Block(nn.Module):
    def __init__(self, inner: int, outer: int, embedding: int) -> None:
        super().__init__()
        self.first = nn.Conv3d(inner, outer, 3, padding=1)
        self.second = nn.Conv3d(outer, outer, 3, padding=1)
        self.norm = nn.GroupNorm(4, outer)
        self.shift = nn.Linear(embedding, outer)
        self.skip = nn.Conv3d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: Tensor, when: Tensor) -> Tensor:
        hidden = F.silu(self.norm(self.first(x)))
        hidden = hidden + self.shift(when)[:, :, None, None, None]
        return self.skip(x) + self.second(F.silu(hidden))


class Denoiser(nn.Module):
    def __init__(self, width: int = 16, embedding: int = 64) -> None:
        super().__init__()
        self.embedding = embedding
        self.time = nn.Sequential(nn.Linear(embedding, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        self.enter = Block(1, width, embedding)
        self.down = Block(width, 2 * width, embedding)
        self.middle = Block(2 * width, 2 * width, embedding)
        self.up = Block(3 * width, width, embedding)
        self.leave = nn.Conv3d(width, 1, 1)

    def encode(self, level: Tensor) -> Tensor:
        half = self.embedding // 2
        rates = torch.exp(-math.log(10_000.0) * torch.arange(half) / half)
        angles = level.float()[:, None] * rates
        return self.time(torch.cat([angles.sin(), angles.cos()], dim=1))

    def forward(self, noisy: Tensor, level: Tensor) -> Tensor:
        when = self.encode(level)
        fine = self.enter(noisy, when)
        coarse = self.down(F.avg_pool3d(fine, 2), when)
        coarse = self.middle(coarse, when)
        raised = F.interpolate(coarse, scale_factor=2, mode="nearest")
        return self.leave(self.up(torch.cat([fine, raised], dim=1), when))


class VolumeStream:
    """Volumes in a new random order in each pass, mirrored at random."""

    def __init__(self, volumes: Tensor, batch_size: int) -> None:
        self.volumes = volumes
        self.batch_size = batch_size

    def __iter__(self):
        while True:
            order = torch.randperm(len(self.volumes))
            for chosen in order[: len(order) // self.batch_size * self.batch_size].split(self.batch_size):
                batch = self.volumes[chosen]
                axes = [axis for axis in (2, 3, 4) if torch.rand(()) < 0.5]
                yield batch.flip(axes) if axes else batch


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=36)
    parser.add_argument("--volumes", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--report", type=int, default=50)
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.manual_seed(11)
    schedule = Schedule()
    stream = VolumeStream(phantoms(options.volumes, options.side, seed=5), options.batch_size)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=1e-4, fused=True)
    total, since = torch.zeros(()), time.perf_counter()
    for step, clean in zip(range(1, options.steps + 1), stream, strict=False):
        level = torch.randint(schedule.levels, (len(clean),))
        noise = torch.randn_like(clean)
        keep = schedule.keep(level)[:, None, None, None, None]
        guess = model(keep.sqrt() * clean + (1 - keep).sqrt() * noise, level)
        loss = F.mse_loss(guess, noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        if step % options.report == 0:
            took = (time.perf_counter() - since) / options.report
            print(f"step {step}: loss {total.item() / options.report:.4f}, {took:.3f} s a step", flush=True)
            total, since = torch.zeros(()), time.perf_counter()


if __name__ == "__main__":
    main()
