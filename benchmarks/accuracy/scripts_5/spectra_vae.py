"""A variational autoencoder of stellar spectra whose latent dimensions are opened one after another."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin, set_seed
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Survey:
    stars: int = 8192
    pixels: int = 1024
    lines: int = 24
    noise: float = 0.05


@dataclass
class Settings:
    batch: int = 512
    epochs: int = 60
    width: int = 1024
    latent: int = 56
    lr: float = 1e-3
    first_open: int = 4
    steps_per_opening: int = 10
    kl_weight: float = 0.2
    seed: int = 8


class SpectrumVAE(nn.Module):
    def __init__(self, pixels: int, width: int, latent: int, kl_weight: float):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(pixels, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, width // 2), nn.GELU()
        )
        self.moments = nn.Linear(width // 2, 2 * latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, width // 2), nn.GELU(), nn.Linear(width // 2, width), nn.GELU(), nn.Linear(width, pixels)
        )
        self.kl_weight = kl_weight
        self.opened = latent
        self.register_buffer("rank", torch.arange(latent))

    def forward(self, flux: Tensor, spread: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.moments(self.encoder(flux)).chunk(2, dim=1)
        is_open = (self.rank < self.opened).to(mean.dtype)
        rebuilt = self.decoder(is_open * (mean + torch.exp(0.5 * log_variance) * spread))
        misfit = F.mse_loss(rebuilt, flux, reduction="sum") / len(flux)
        kl = 0.5 * (is_open * (mean.square() + log_variance.exp() - 1.0 - log_variance)).sum() / len(flux)
        return misfit + self.kl_weight * kl, misfit.detach(), kl.detach()


def observed(survey: Survey, seed: int) -> TensorDataset:
    """Black-body-like slopes with absorption lines of varying depth, and noise."""
    draw = torch.Generator().manual_seed(seed)
    grid = torch.linspace(-1, 1, survey.pixels)
    centres = torch.rand(survey.lines, generator=draw) * 2 - 1
    widths = 0.004 + 0.01 * torch.rand(survey.lines, generator=draw)
    profiles = torch.exp(-0.5 * ((grid - centres[:, None]) / widths[:, None]) ** 2)
    depth = torch.rand(survey.stars, survey.lines, generator=draw) ** 2
    slope = torch.randn(survey.stars, 1, generator=draw) * 0.3
    flux = 1 + slope * grid - depth @ profiles
    flux += survey.noise * torch.randn(flux.shape, generator=draw)
    return TensorDataset(flux)


class Batches:
    """Collates by one indexing of the whole table."""

    def __init__(self, table: Tensor):
        self.table = table

    def __call__(self, rows: list[int]) -> Tensor:
        return self.table[torch.tensor(rows)]


def dimensions_at(step: int, settings: Settings) -> int:
    return min(settings.first_open + step // settings.steps_per_opening, settings.latent)


def main(settings: Settings, survey: Survey) -> None:
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path("inductor_cache").resolve()))
    torch._dynamo.config.recompile_limit = 64
    set_seed(settings.seed)
    accelerator = Accelerator(cpu=True, dynamo_plugin=TorchDynamoPlugin(backend="inductor"))
    (table,) = observed(survey, settings.seed).tensors
    loader = DataLoader(
        range(len(table)), batch_size=settings.batch, shuffle=True, drop_last=True, collate_fn=Batches(table)
    )
    net = SpectrumVAE(survey.pixels, settings.width, settings.latent, settings.kl_weight)
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.lr, fused=True)
    model, optimizer, loader = accelerator.prepare(net, optimizer, loader)

    step = 0
    for epoch in range(settings.epochs):
        totals = torch.zeros(2)
        for flux in loader:
            net.opened = dimensions_at(step, settings)
            spread = torch.randn(len(flux), settings.latent)
            loss, misfit, kl = model(flux, spread)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            totals += torch.stack((misfit, kl))
            step += 1
        misfit, kl = (totals / len(loader)).tolist()
        accelerator.print(f"epoch {epoch}: misfit {misfit:.2f}, KL {kl:.2f}, {int(net.opened)} dimensions")


if __name__ == "__main__":
    main(Settings(), Survey())
