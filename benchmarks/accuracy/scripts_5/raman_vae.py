"""Convolutional VAE of Raman spectra of mineral mixtures; each sample is mixed anew from a library of pure spectra."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minerals", type=int, default=160)
    parser.add_argument("--channels", type=int, default=1024, help="points of a spectrum")
    parser.add_argument("--mixtures", type=int, default=12800, help="mixtures per epoch")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--latent", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--beta", type=float, default=0.2)
    return parser.parse_args()


def pure_spectra(minerals: int, channels: int) -> torch.Tensor:
    """Lorentzian lines at random shifts, scaled to a maximum of one."""
    shift = torch.linspace(0.0, 1.0, channels)
    lines = 14
    centre = torch.rand(minerals, lines, 1)
    width = 0.002 + 0.012 * torch.rand(minerals, lines, 1)
    height = torch.rand(minerals, lines, 1) ** 2
    spectra = (height / (1.0 + ((shift - centre) / width) ** 2)).sum(dim=1)
    return spectra / spectra.amax(dim=1, keepdim=True)


class Mixtures(Dataset):
    """Two minerals in random shares, with a fluorescent background and shot noise."""

    def __init__(self, library: torch.Tensor, size: int) -> None:
        self.library = library
        self.size = size
        self.ramp = torch.linspace(0.0, 1.0, library.shape[1])

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = torch.randint(len(self.library), (2,)).tolist()
        share, slope = torch.rand(2).tolist()
        clean = torch.lerp(self.library[first], self.library[second], share)
        noisy = torch.add(clean, self.ramp, alpha=0.3 * slope)
        return noisy.add_(torch.randn_like(clean), alpha=0.02), clean


class SpectrumVAE(nn.Module):
    WIDTHS = (32, 64, 96, 128)

    def __init__(self, channels: int, latent: int) -> None:
        super().__init__()
        down, before = [], 1
        for width in self.WIDTHS:
            down += [nn.Conv1d(before, width, 7, stride=2, padding=3), nn.GroupNorm(8, width), nn.SiLU()]
            down += [nn.Conv1d(width, width, 5, padding=2), nn.SiLU()]
            before = width
        self.encoder = nn.Sequential(*down)
        self.length = channels // 2 ** len(self.WIDTHS)
        flat = before * self.length
        self.moments = nn.Linear(flat, 2 * latent)
        self.expand = nn.Linear(latent, flat)
        up = []
        for width in (*reversed(self.WIDTHS[:-1]), 16):
            up += [nn.ConvTranspose1d(before, width, 4, stride=2, padding=1), nn.GroupNorm(8, width), nn.SiLU()]
            before = width
        self.decoder = nn.Sequential(*up, nn.Conv1d(before, 1, 5, padding=2))

    def forward(self, noisy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.encoder(noisy.unsqueeze(1))
        mean, log_variance = self.moments(hidden.flatten(1)).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        seed = self.expand(code).view(len(code), -1, self.length)
        return self.decoder(seed).squeeze(1), mean, log_variance


def negative_elbo(clean, restored, mean, log_variance, beta: float) -> tuple[torch.Tensor, torch.Tensor]:
    reconstruction = F.mse_loss(restored, clean, reduction="none").sum(dim=1).mean()
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(dim=1).mean()
    return reconstruction + beta * divergence, reconstruction


def main() -> None:
    args = parse()
    torch.manual_seed(3)
    data = Mixtures(pure_spectra(args.minerals, args.channels), args.mixtures)
    loader = DataLoader(data, batch_size=args.batch, num_workers=0, drop_last=True)
    model = SpectrumVAE(args.channels, args.latent)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    warm = 200

    def factor(step: int) -> float:
        total = args.epochs * len(loader)
        return min(1.0, (step + 1) / warm) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for epoch in range(args.epochs):
        total = torch.zeros(())
        for noisy, clean in loader:
            restored, mean, log_variance = model(noisy)
            loss, reconstruction = negative_elbo(clean, restored, mean, log_variance, args.beta)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += reconstruction.detach()
        print(f"epoch {epoch + 1}: squared error per spectrum {total.item() / len(loader):.3f}", flush=True)


if __name__ == "__main__":
    main()
