"""Siamese network for signature verification, trained on pairs that are drawn and distorted on the fly.

One "round" is a short pass over a few fresh pairs; after it the threshold is fitted again.
"""

import argparse
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 40


class PairDataset(Dataset):
    """Pair i is genuine (same writer) for even i, forged for odd i."""

    def __init__(self, writers, pairs):
        rng = np.random.default_rng(99)
        self.controls = rng.uniform(0.1, 0.9, size=(writers, 9, 2))
        self.pairs = pairs

    def __len__(self):
        return self.pairs

    def ink(self, writer, rng):
        knots = self.controls[writer] + rng.normal(0, 0.02, (9, 2))
        angle, slant = rng.normal(0, 0.12), rng.normal(0, 0.2)
        t = np.linspace(0, 8, 260)
        x, y = (np.interp(t, np.arange(9), knots[:, axis]) for axis in (0, 1))
        x, y = x + slant * (y - 0.5), y + math.tan(angle) * (x - 0.5)
        page = np.zeros((SIZE, SIZE), dtype=np.float32)
        grid = np.linspace(0, 1, SIZE, dtype=np.float32)
        across = np.exp(-((grid[None] - x[:, None]) ** 2) * 900).astype(np.float32)
        down = np.exp(-((grid[None] - y[:, None]) ** 2) * 900).astype(np.float32)
        for a, d in zip(across, down):
            np.maximum(page, d[:, None] * a[None], out=page)
        return page + rng.normal(0, 0.05, page.shape).astype(np.float32)

    def __getitem__(self, i):
        rng = np.random.default_rng(torch.randint(2**31, ()).item())
        one = int(rng.integers(len(self.controls)))
        other = one if i % 2 == 0 else (one + int(rng.integers(1, len(self.controls)))) % len(self.controls)
        return {
            "left": torch.from_numpy(self.ink(one, rng))[None],
            "right": torch.from_numpy(self.ink(other, rng))[None],
            "genuine": torch.tensor(float(i % 2 == 0)),
        }


class Tower(nn.Module):
    def __init__(self, channels=(8, 16, 32), out=32):
        super().__init__()
        layers, last = [], 1
        for c in channels:
            layers += [nn.Conv2d(last, c, 3, stride=2, padding=1), nn.ReLU()]
            last = c
        self.net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels[-1] * 25, out))

    def forward(self, page):
        return F.normalize(self.net(page), dim=1)


def contrastive(gap, genuine, margin=1.0):
    return (genuine * gap**2 + (1 - genuine) * F.relu(margin - gap) ** 2).mean()


def train_round(tower, loader, opt):
    gaps, marks = [], []
    for batch in loader:
        gap = (tower(batch["left"]) - tower(batch["right"]) + 1e-6).norm(dim=1)
        loss = contrastive(gap, batch["genuine"])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        gaps.append(gap.detach())
        marks.append(batch["genuine"])
    return torch.cat(gaps), torch.cat(marks)


def fit_threshold(gaps, marks):
    cuts = torch.linspace(0, 2, 41)
    accuracy = ((gaps[None] < cuts[:, None]).float() == marks[None]).float().mean(1)
    best = accuracy.argmax()
    return cuts[best].item(), accuracy[best].item()


def run(opts):
    torch.manual_seed(opts.seed)
    loading = {"batch_size": opts.batch, "shuffle": True, "drop_last": True}
    if opts.workers:
        loading.update(num_workers=opts.workers)
    loader = DataLoader(PairDataset(opts.writers, opts.pairs), **loading)
    tower = Tower()
    opt = torch.optim.SGD(tower.parameters(), lr=opts.lr, momentum=0.9, fused=True)
    for r in range(opts.rounds):
        threshold, accuracy = fit_threshold(*train_round(tower, loader, opt))
        if r % 10 == 0:
            print(f"round {r:4d}  threshold {threshold:.2f}  accuracy {accuracy:.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--writers", type=int, default=60)
    ap.add_argument("--pairs", type=int, default=64)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=600)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--seed", type=int, default=4)
    run(ap.parse_args())
