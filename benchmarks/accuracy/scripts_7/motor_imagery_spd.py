"""Decode imagined movements from EEG: covariances of frequency bands, a network on symmetric matrices on top."""

import argparse
import os
import time

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.data import DataLoader, Dataset, RandomSampler

SENSORS, RATE, KEPT, CUT = 60, 256, 1280, 1024
BANDS = ((4, 8), (8, 10), (10, 12), (12, 16), (16, 20), (20, 25), (25, 30), (30, 40))
CLASSES = ("left hand", "right hand", "feet", "tongue")


def record(trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Trials in microvolts / 10 as int16: pink noise, and rhythms that fade where a class is imagined."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(CLASSES), size=trials)
    blend = rng.standard_normal((SENSORS, 12)).astype(np.float32)
    patterns = rng.standard_normal((len(CLASSES), SENSORS)).astype(np.float32)
    seconds = np.arange(KEPT, dtype=np.float32) / RATE
    raw = np.empty((trials, SENSORS, KEPT), dtype=np.int16)
    for trial, label in enumerate(labels):
        sources = rng.standard_normal((12, KEPT), dtype=np.float32).cumsum(1) * 0.3
        volts = blend @ (sources - sources.mean(1, keepdims=True))
        volts += 6 * rng.standard_normal((SENSORS, KEPT), dtype=np.float32)
        for place, hertz in enumerate(rng.uniform((9, 10, 11, 18), (11, 12, 14, 24))):
            fade = 0.35 if place == label else 1.0
            rhythm = np.sin(2 * np.pi * (hertz * seconds + rng.random())).astype(np.float32)
            volts += 8 * fade * patterns[place][:, None] * rhythm
        raw[trial] = np.clip(volts * 10, -32000, 32000)
    return raw, labels


class BandCovariances(Dataset):
    """A random cut of a trial with some sensor noise, filtered into bands with jittered edges: one covariance each."""

    def __init__(self, raw: np.ndarray, labels: np.ndarray) -> None:
        self.raw, self.labels = torch.from_numpy(raw), torch.from_numpy(labels)
        self.hertz = torch.fft.rfftfreq(CUT, 1 / RATE)
        self.window = torch.hann_window(CUT)
        self.edges = torch.tensor(BANDS, dtype=torch.float32)
        self.ridge = 0.02 * torch.eye(SENSORS)

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, trial: int) -> tuple[torch.Tensor, torch.Tensor]:
        first = int(torch.randint(KEPT - CUT, ()))
        volts = self.raw[trial, :, first : first + CUT].float() / 10
        volts -= volts.mean(0)
        volts += (0.5 + torch.rand(())) * torch.randn_like(volts)
        low, high = (self.edges + torch.rand_like(self.edges) - 0.5)[..., None].unbind(1)
        gains = torch.sigmoid(4 * (self.hertz - low)) * torch.sigmoid(4 * (high - self.hertz))
        filtered = torch.fft.irfft(torch.fft.rfft(volts) * gains[:, None], n=CUT) * self.window
        inner = filtered @ filtered.mT
        scale = SENSORS / inner.diagonal(dim1=1, dim2=2).sum(1)
        return inner * scale[:, None, None] + self.ridge, self.labels[trial]


class Reduce(nn.Module):
    """Congruence with a learned matrix of orthonormal rows."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.rows = parametrizations.orthogonal(nn.Linear(before, after, bias=False))

    def forward(self, matrices: torch.Tensor) -> torch.Tensor:
        rows = self.rows.weight
        return rows @ matrices @ rows.mT


def of_spectrum(matrices: torch.Tensor, function) -> torch.Tensor:
    values, vectors = torch.linalg.eigh(matrices)
    return (vectors * function(values).unsqueeze(-2)) @ vectors.mT


class SpdNet(nn.Module):
    def __init__(self, first: int, second: int, floor: float = 1e-3) -> None:
        super().__init__()
        self.floor = floor
        self.first, self.second = Reduce(SENSORS, first), Reduce(first, second)
        self.pairs = torch.triu_indices(second, second)
        self.head = nn.Linear(len(BANDS) * self.pairs.shape[1], len(CLASSES))

    def forward(self, matrices: torch.Tensor) -> torch.Tensor:
        matrices = of_spectrum(self.first(matrices), lambda values: values.clamp(min=self.floor))
        flat = of_spectrum(self.second(matrices), lambda values: values.clamp(min=self.floor).log())
        return self.head(flat[:, :, self.pairs[0], self.pairs[1]].flatten(1))


def main(options: argparse.Namespace) -> None:
    torch.manual_seed(4)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) - options.workers))
    trials = BandCovariances(*record(options.trials, seed=6))
    drawn = RandomSampler(trials, replacement=True, num_samples=options.steps * options.batch)
    loader = DataLoader(trials, batch_size=options.batch, sampler=drawn, num_workers=options.workers)
    model = SpdNet(options.first, options.second).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=1e-3, fused=True)
    began, right = time.monotonic(), torch.zeros((), dtype=torch.int64)
    for step, (matrices, labels) in enumerate(loader, start=1):
        scores = model(matrices.double())
        loss = nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += (scores.argmax(1) == labels).sum()
        if step % options.report == 0:
            share, spent = right.item() / (options.report * options.batch), time.monotonic() - began
            print(f"step {step}: loss {loss.item():.4f}, right {share:.3f}, {spent:.0f} s", flush=True)
            right.zero_()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=960)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--first", type=int, default=56)
    parser.add_argument("--second", type=int, default=48)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--report", type=int, default=50)
    main(parser.parse_args())
