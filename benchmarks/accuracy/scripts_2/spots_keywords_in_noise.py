"""Keyword spotting on one-second clips. Every clip is heard at another speed and in other noise each time."""

import math
import random
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS = ("left", "right", "stop", "go", "up", "down", "yes", "no")
RATE, FFT, HOP, MELS = 16000, 512, 256, 40


@dataclass
class LoaderConfig:
    batch_size: int = 24
    num_workers: int = 0
    shuffle: bool = True
    drop_last: bool = True


@dataclass
class Config:
    epochs: int = 40
    lr: float = 2e-3
    weight_decay: float = 1e-4
    seed: int = 17
    loader: LoaderConfig = field(default_factory=LoaderConfig)


def mel_bank():
    top = 2595 * math.log10(1 + RATE / 2 / 700)
    hertz = 700 * (10 ** (np.linspace(0, top, MELS + 2) / 2595) - 1)
    grid = np.linspace(0, RATE / 2, FFT // 2 + 1)
    rising = (grid - hertz[:-2, None]) / (hertz[1:-1] - hertz[:-2])[:, None]
    falling = (hertz[2:, None] - grid) / (hertz[2:] - hertz[1:-1])[:, None]
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)


def synth_clip(word, rng):
    """A stand-in for a recorded word: three gliding formants."""
    t = np.arange(RATE) / RATE
    clip = np.zeros(RATE)
    for k in range(3):
        f0, f1 = 200 + 150 * word + 400 * k, 300 + 90 * ((word * 5) % 8) + 500 * k
        clip += np.sin(2 * np.pi * (f0 * t + (f1 - f0) * t**2 / 2) + rng.uniform(0, 6)) / (k + 1)
    return (clip * np.hanning(RATE)).astype(np.float32)


class Spoken(Dataset):
    def __init__(self, size=6400):
        rng = np.random.default_rng(5)
        self.bank, self.window = torch.from_numpy(mel_bank()), np.hanning(FFT).astype(np.float32)
        self.pool = [(synth_clip(i % len(WORDS), rng), i % len(WORDS)) for i in range(800)]
        self.noise = rng.normal(size=RATE * 60).astype(np.float32)
        self.size = size

    def __len__(self):
        return self.size

    def perturb(self, clip):
        speed = random.uniform(0.85, 1.15)
        clip = np.interp(np.arange(0, RATE, speed), np.arange(RATE), clip)[:RATE]
        clip = np.pad(clip, (0, RATE - len(clip)))
        clip = np.roll(clip, random.randint(-1600, 1600))
        # room: a random exponentially decaying tail
        tail = np.random.randn(800) * np.exp(-np.arange(800) / random.uniform(40, 180))
        tail[0] = 3.0
        clip = np.convolve(clip, tail)[:RATE]
        start = random.randrange(len(self.noise) - RATE)
        return clip + self.noise[start : start + RATE] * random.uniform(0.1, 1.0) * clip.std()

    def __getitem__(self, i):
        clip, word = self.pool[i % len(self.pool)]
        heard = self.perturb(clip)
        frames = np.lib.stride_tricks.sliding_window_view(heard, FFT)[::HOP] * self.window
        power = torch.from_numpy(np.abs(np.fft.rfft(frames, axis=1)) ** 2).float()
        return torch.log(self.bank @ power.T + 1e-6), word


class Spotter(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(MELS, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU())
        self.body = nn.Sequential(*[
            nn.Sequential(nn.Conv1d(width, width, 9, padding=4, groups=width), nn.Conv1d(width, width, 1), nn.ReLU())
            for _ in range(3)
        ])
        self.head = nn.Linear(width, len(WORDS))

    def forward(self, mel):
        return self.head(self.body(self.front(mel)).mean(-1))


class Fit:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed), random.seed(cfg.seed), np.random.seed(cfg.seed)
        self.loader = DataLoader(Spoken(), **vars(cfg.loader))
        self.net = Spotter()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay, fused=True)

    def one_epoch(self):
        right = seen = 0
        for mel, word in self.loader:
            logits = self.net(mel)
            loss = nn.functional.cross_entropy(logits, word, label_smoothing=0.1)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            right, seen = right + (logits.argmax(1) == word).sum(), seen + len(word)
        return float(right) / seen

    def run(self):
        for epoch in range(self.cfg.epochs):
            print(f"epoch {epoch}: train accuracy {self.one_epoch():.3f}")


if __name__ == "__main__":
    Fit(Config()).run()
