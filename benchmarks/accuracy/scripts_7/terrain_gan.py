"""Generate elevation tiles for a landscape simulator with a pair of convolutional networks trained against each other.

The networks are kept small on purpose: the simulator runs the generator on a handheld device.
"""

import math
from collections import deque
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import nn

SIDE = 32
LATENT = 64
BATCH = 128
ITERATIONS = 6000
REPORT_EVERY = 50
R1_WEIGHT = 1.0
R1_EVERY = 16


def fractal_tiles(count: int, rough: float = 2.2, seed: int = 0) -> torch.Tensor:
    """Heights with a power-law spectrum, with water cut flat and ridges on some tiles."""
    noise = torch.Generator().manual_seed(seed)
    fy = torch.fft.fftfreq(2 * SIDE)[:, None]
    fx = torch.fft.rfftfreq(2 * SIDE)[None, :]
    radius = torch.sqrt(fx**2 + fy**2)
    radius[0, 0] = math.inf
    tiles = []
    for _ in range(0, count, 2048):
        white = torch.randn(2048, 2 * SIDE, 2 * SIDE, generator=noise)
        field = torch.fft.irfft2(torch.fft.rfft2(white) * radius ** (-rough))[:, :SIDE, :SIDE]
        field = (field - field.mean(dim=(1, 2), keepdim=True)) / field.std(dim=(1, 2), keepdim=True)
        ridged = torch.rand(2048, 1, 1, generator=noise) < 0.3
        field = torch.where(ridged, 1.0 - 1.5 * field.abs(), field)
        tiles.append(field.clamp(min=-1.0))
    return torch.cat(tiles)[:count, None].tanh()


class Generator(nn.Module):
    def __init__(self, latent: int, widths: tuple[int, ...] = (64, 48, 32)):
        super().__init__()
        self.first = nn.Linear(latent, widths[0] * 16)
        self.shape = (widths[0], 4, 4)
        steps = []
        for a, b in zip(widths, (*widths[1:], 24)):
            steps += [nn.ConvTranspose2d(a, b, 4, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*steps)
        self.last = nn.Conv2d(24, 1, 5, padding=2)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(F.relu(self.first(z)).unflatten(1, self.shape))).tanh()


class Critic(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (24, 40, 64)):
        super().__init__()
        steps, inside = [], 1
        for width in widths:
            steps += [nn.Conv2d(inside, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
            steps += [nn.Conv2d(width, width, 3, padding=1), nn.LeakyReLU(0.2)]
            inside = width
        self.body = nn.Sequential(*steps)
        self.score = nn.Linear(inside * 16, 1)

    def forward(self, tiles: torch.Tensor) -> torch.Tensor:
        return self.score(self.body(tiles).flatten(1)).squeeze(1)


def shuffled(tiles: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    while True:
        for rows in torch.randperm(len(tiles)).split(size):
            if len(rows) == size:
                yield tiles[rows]


def gradient_penalty(critic: Critic, real: torch.Tensor) -> torch.Tensor:
    real = real.detach().requires_grad_()
    (slope,) = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return slope.square().sum(dim=(1, 2, 3)).mean()


def critic_step(critic: Critic, optimizer, real: torch.Tensor, fake: torch.Tensor, regularise: bool) -> torch.Tensor:
    loss = F.softplus(-critic(real)).mean() + F.softplus(critic(fake)).mean()
    total = loss
    if regularise:
        total = loss + 0.5 * R1_WEIGHT * R1_EVERY * gradient_penalty(critic, real)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    return loss.detach()


def generator_step(critic: Critic, optimizer, fake: torch.Tensor) -> torch.Tensor:
    critic.requires_grad_(False)
    loss = F.softplus(-critic(fake)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    critic.requires_grad_(True)
    return loss.detach()


def slope_histogram_gap(fake: torch.Tensor, real: torch.Tensor) -> float:
    """How far the distribution of slopes is from that of real tiles, from 0 to 2."""
    counts = [torch.histc((tiles[..., 1:] - tiles[..., :-1]).abs(), 40, 0.0, 1.0) for tiles in (fake, real)]
    return (counts[0] / counts[0].sum() - counts[1] / counts[1].sum()).abs().sum().item()


def train() -> None:
    torch.manual_seed(29)
    real_batches = shuffled(fractal_tiles(16384), BATCH)
    generator, critic = Generator(LATENT), Critic()
    makes = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.99))
    judges = torch.optim.Adam(critic.parameters(), lr=3e-4, betas=(0.5, 0.99))
    recent = deque(maxlen=REPORT_EVERY)

    for iteration in range(1, ITERATIONS + 1):
        real = next(real_batches)
        fake = generator(torch.randn(BATCH, LATENT))
        judged = critic_step(critic, judges, real, fake.detach(), regularise=iteration % R1_EVERY == 0)
        made = generator_step(critic, makes, fake)
        recent.append(torch.stack([judged, made]))
        if iteration % REPORT_EVERY == 0:
            critic_loss, generator_loss = torch.stack(list(recent)).mean(dim=0).tolist()
            gap = slope_histogram_gap(fake.detach(), real)
            print(f"{iteration:6d}  critic {critic_loss:.3f}  generator {generator_loss:.3f}  slopes {gap:.3f}")


if __name__ == "__main__":
    train()
