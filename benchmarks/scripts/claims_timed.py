"""The two sides of every claim that is timed (benchmarks/claims.py). Both do the same work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

Sides = tuple[Callable[[], object], Callable[[], object]]


class Blocks(nn.Module):
    """Transformer blocks over [batch, tokens, width], with activations kept or recomputed."""

    def __init__(self, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers)
        )

    def forward(self, x: torch.Tensor, *, recomputes: bool = False) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if recomputes else layer(x)
        return x


class Slow(Dataset[torch.Tensor]):
    """Samples that take `wait_s` to fetch."""

    def __init__(self, samples: int, wait_s: float) -> None:
        self.samples, self.wait_s = samples, wait_s

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.wait_s)
        return torch.zeros(16)


def backward(model: nn.Module, x: torch.Tensor, **options: bool) -> None:
    model(x, **options).square().mean().backward()


def step(model: nn.Module, parts: Sequence[torch.Tensor], **options: bool) -> None:
    """One optimizer step's worth of gradients."""
    for part in parts:
        backward(model, part, **options)
    model.zero_grad()


def recomputation() -> Sides:
    model, x = Blocks(), torch.randn(8, 128, 128)
    return lambda: step(model, [x], recomputes=True), lambda: step(model, [x])


def small_micro_batches() -> Sides:
    """64 samples in micro-batches of two, and of sixteen."""
    model, x = Blocks(width=64), torch.randn(64, 16, 64)
    return lambda: step(model, x.split(2)), lambda: step(model, x.split(16))


def padding_to_the_limit() -> Sides:
    """One batch of samples of 128 tokens at most, padded to 512, and to its longest."""
    model = Blocks()
    wide, narrow = torch.zeros(4, 512, 128), torch.zeros(4, 128, 128)
    return lambda: step(model, [wide]), lambda: step(model, [narrow])


def epochs(loader: DataLoader[torch.Tensor], count: int, busy_s: float = 0.0) -> None:
    for _ in range(count):
        for _ in loader:
            time.sleep(busy_s)


def workers_that_start_anew() -> Sides:
    """An epoch of 25 tiny batches out of memory: four workers, and none."""
    data = TensorDataset(torch.zeros(25, 16))
    many, none = DataLoader(data, num_workers=4), DataLoader(data)
    return lambda: epochs(many, 1), lambda: epochs(none, 1)


def workers_that_live_on() -> Sides:
    data = TensorDataset(torch.zeros(25, 16))
    anew, kept = DataLoader(data, num_workers=2), DataLoader(data, num_workers=2, persistent_workers=True)
    return lambda: epochs(anew, 2), lambda: epochs(kept, 2)


def workers_for_waits() -> Sides:
    """40 batches whose samples wait 4 ms for a store, beside steps of 8 ms: none, and two workers."""
    none, two = DataLoader(Slow(160, 0.004), 4), DataLoader(Slow(160, 0.004), 4, num_workers=2)
    return lambda: epochs(none, 1, 0.008), lambda: epochs(two, 1, 0.008)


def deeper_queue() -> Sides:
    """40 even batches by two workers that cannot keep up: two batches ahead of each, and eight."""
    data = Slow(160, 0.01)
    two, eight = (DataLoader(data, 4, num_workers=2, prefetch_factor=depth) for depth in (2, 8))
    return lambda: epochs(two, 1, 0.008), lambda: epochs(eight, 1, 0.008)


def spawned_workers() -> Sides:
    data = TensorDataset(torch.zeros(25, 16))
    ways = ("spawn", "fork")
    spawn, fork = (DataLoader(data, num_workers=2, multiprocessing_context=way) for way in ways)
    return lambda: epochs(spawn, 1), lambda: epochs(fork, 1)


PAIRS: tuple[tuple[str, str, Callable[[], Sides]], ...] = (
    ("0.14, 3.14, 4.22", "activations kept, not recomputed", recomputation),
    ("0.15, 1.6, 1.9", "64 samples in micro-batches of 16, not of 2", small_micro_batches),
    ("0.18", "samples of 128 tokens padded to the longest, not to 512", padding_to_the_limit),
    ("0.10, 2.3, 3.6", "two workers, not none, where samples wait for a store", workers_for_waits),
    ("2.6", "no workers, not four, for 25 batches that are in memory", workers_that_start_anew),
    ("2.6, 3.35", "workers that live on, not new ones for each 25 batches", workers_that_live_on),
    ("0.12", "eight batches ahead of each worker, not two, where two workers cannot keep up", deeper_queue),
    ("3.5", "workers by fork, not by spawn, for 25 batches that are in memory", spawned_workers),
)
"""Claims, what the second side does, and how both sides are made."""
