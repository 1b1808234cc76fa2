"""Toy DDPM on swiss rolls and moons: learn the score of an endless stream of points."""
import argparse
import math
from typing import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

T = 200


class PointStream(IterableDataset):
    """Yields whole clouds; nothing is stored."""

    def __init__(self, points: int, clouds: int, seed: int):
        self.points, self.clouds, self.seed = points, clouds, seed

    def __iter__(self) -> Iterator[Tensor]:
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(self.clouds):
            u = torch.rand(self.points, generator=g)
            angle = 1.5 * math.pi * (1 + 2 * u)
            roll = torch.stack([angle * angle.cos(), angle * angle.sin()], dim=1) / 10
            yield roll + 0.02 * torch.randn(self.points, 2, generator=g)


def timestep_features(t: Tensor, dim: int = 64) -> Tensor:
    freq = torch.exp(-math.log(1e4) * torch.arange(dim // 2) / (dim // 2))
    arg = t[:, None].float() * freq
    return torch.cat([arg.sin(), arg.cos()], dim=1)


class Denoiser(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.inp = nn.Linear(2 + 64, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(depth)
        )
        self.out = nn.Linear(width, 2)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = self.inp(torch.cat([x, timestep_features(t)], dim=1))
        for block in self.blocks:
            h = h + block(h)
        return self.out(h)


class Diffusion:
    def __init__(self):
        betas = torch.linspace(1e-4, 0.04, T)
        self.keep = torch.cumprod(1 - betas, 0)

    def noise(self, x: Tensor):
        t = torch.randint(T, (len(x),))
        eps = torch.randn_like(x)
        keep = self.keep[t][:, None]
        return keep.sqrt() * x + (1 - keep).sqrt() * eps, t, eps


def train(opts: argparse.Namespace) -> None:
    torch.manual_seed(opts.seed)
    stream = PointStream(opts.points, opts.iters, opts.seed)
    loader = DataLoader(stream, batch_size=None)
    net = Denoiser(opts.width, opts.depth)
    ema = {k: v.clone() for k, v in net.state_dict().items()}
    process = Diffusion()
    optimizer = torch.optim.AdamW(net.parameters(), lr=opts.lr, fused=True)
    for it, cloud in enumerate(loader):
        x, t, eps = process.noise(cloud)
        loss = (net(x, t) - eps).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if it % 20 == 0:
            for k, v in net.state_dict().items():
                ema[k].lerp_(v, 0.05)
        if it % 200 == 0:
            print(f"iter {it} mse {loss.item():.4f}", flush=True)
        if it and it % 1000 == 0:
            torch.save(ema, "ddpm_ema.pt")


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--points", type=int, default=1536)
    cli.add_argument("--iters", type=int, default=2500)
    cli.add_argument("--width", type=int, default=384)
    cli.add_argument("--depth", type=int, default=5)
    cli.add_argument("--lr", type=float, default=3e-4)
    cli.add_argument("--seed", type=int, default=0)
    train(cli.parse_args())
