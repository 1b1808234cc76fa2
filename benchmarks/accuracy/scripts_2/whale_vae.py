"""VAE over whale-song spectrograms. Recordings are kept packed; they unpack on first use."""
import zlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    clips: int = 1536
    batch: int = 96
    latent: int = 24
    width: int = 768
    epochs: int = 160
    lr: float = 1e-3
    beta: float = 0.5
    seed: int = 3


BINS, FRAMES = 64, 48


def record(rng):
    """One 'recording': a chirp with overtones in noise, stored as zlib'd int16."""
    t = np.linspace(0, 1, 16000)
    f0, slope = rng.uniform(100, 900), rng.uniform(-300, 300)
    phase = 2 * np.pi * (f0 * t + 0.5 * slope * t * t)
    wave = np.sin(phase) + 0.4 * np.sin(2 * phase) + 0.1 * rng.normal(size=t.size)
    return zlib.compress((wave * 8000).astype(np.int16).tobytes(), 1)


class Clips(Dataset):
    def __init__(self, packed):
        self.packed = packed
        self.ready = {}

    def __len__(self):
        return len(self.packed)

    def decode(self, i):
        wave = np.frombuffer(zlib.decompress(self.packed[i]), np.int16).astype(np.float32) / 8000
        windows = np.lib.stride_tricks.sliding_window_view(wave, 512)[:: (len(wave) - 512) // FRAMES][:FRAMES]
        power = np.abs(np.fft.rfft(windows * np.hanning(512), axis=1))[:, : BINS * 2]
        spec = np.log1p(power.reshape(FRAMES, BINS, 2).mean(2))
        return torch.from_numpy((spec / 6).astype(np.float32).ravel())

    def __getitem__(self, i):
        if i not in self.ready:
            self.ready[i] = self.decode(i)
        return self.ready[i]


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        n, w = BINS * FRAMES, cfg.width
        self.enc = nn.Sequential(nn.Linear(n, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, 2 * cfg.latent))
        self.dec = nn.Sequential(nn.Linear(cfg.latent, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, n))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum(-1).mean()
        return self.dec(z), kl


class Experiment:
    def __init__(self, cfg):
        torch.manual_seed(cfg.seed)
        rng = np.random.default_rng(cfg.seed)
        self.cfg = cfg
        self.clips = Clips([record(rng) for _ in range(cfg.clips)])
        self.loader = DataLoader(self.clips, batch_size=cfg.batch, shuffle=True, drop_last=True)
        self.model = VAE(cfg)
        self.optim = torch.optim.Adam(self.model.parameters(), lr=cfg.lr, fused=True)

    def epoch(self):
        seen = []
        for x in self.loader:
            recon, kl = self.model(x)
            loss = (recon - x).square().sum(-1).mean() + self.cfg.beta * kl
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
            seen.append(loss.detach())
        return torch.stack(seen).mean()

    def fit(self):
        for number in range(self.cfg.epochs):
            elbo = self.epoch()
            if number % 5 == 0:
                print(f"epoch {number:3d}  -elbo {elbo:.2f}", flush=True)


if __name__ == "__main__":
    Experiment(Config()).fit()
