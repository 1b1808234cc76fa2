"""A raw loop over one of several loaders and models, under settings given as words: the workload of prediction.py.

`loading.py --kind csv workers=0` trains until it is stopped. With `--result FILE` it trains under several settings
("workers=0" "workers=2 prefetch=4") that take turns, --rounds times, and writes the milliseconds per optimizer step of
every round. Each setting of a round is a process of its own, as a user's run is: what an earlier one left in the memory
allocator makes the next one up to twice as fast. A kind with short epochs is timed over whole epochs, with the start
and the end of its workers; any other after the batches that were ready before the first step.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
import turns
from kinds import KINDS, LONG, LONGEST, VOCABULARY, Kind, Samples
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

MEGABATCH = 50


@dataclass(frozen=True)
class Settings:
    """What the benchmark changes."""

    workers: int = 0
    prefetch: int = 2
    batch: int = 8
    accumulate: int = 1
    pad: str = "dynamic"
    fused: int = 0
    threads: int = 1
    save_every: int = 0
    recompute: int = 0


def embedding(kind: Kind) -> nn.Module:
    if kind.sample == "text":
        return nn.Embedding(VOCABULARY, kind.width, padding_idx=0)
    if kind.sample == "convolution":
        return nn.Sequential(nn.Unflatten(1, (3, 24, 24)), nn.Conv2d(3, kind.width, 3, padding=1))
    return nn.Linear(kind.features, kind.width)


def layer(kind: Kind) -> nn.Module:
    width = kind.width
    if kind.sample == "text":
        return nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    linear = nn.Conv2d(width, width, 3, padding=1) if kind.sample == "convolution" else nn.Linear(width, width)
    return nn.Sequential(linear, nn.GELU())


class Model(nn.Module):
    """An MLP over features, convolutions over pictures, or a transformer over token ids (0 is padding)."""

    def __init__(self, kind: Kind, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.embed = embedding(kind)
        self.layers = nn.ModuleList(layer(kind) for _ in range(kind.depth))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(inputs)
        for one in self.layers:
            hidden = checkpoint(one, hidden, use_reentrant=False) if self.recompute else one(hidden)
        return hidden.square().mean()


def collate(pad: str) -> Callable[[list[torch.Tensor]], dict[str, torch.Tensor]]:
    def padded(rows: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        width = LONGEST if pad == "static" else max(len(row) for row in rows)
        ids = torch.stack([nn.functional.pad(row, (0, width - len(row))) for row in rows])
        return {"input_ids": ids, "attention_mask": (ids != 0).long()}

    return padded


def order(kind: Kind, settings: Settings) -> Iterator[list[int]]:
    """Batches of indices; grouped: sorted by length in megabatches of MEGABATCH batches, as transformers does."""
    draw, data = random.Random(1), Samples(kind)
    while True:
        mega = [draw.randrange(kind.length) for _ in range(MEGABATCH * settings.batch)]
        mega.sort(key=lambda index: len(data[index]), reverse=True)
        rows = [mega[at : at + settings.batch] for at in range(0, len(mega), settings.batch)]
        draw.shuffle(rows)
        yield from rows


class Grouped:
    """A batch sampler of a long epoch."""

    def __init__(self, kind: Kind, settings: Settings) -> None:
        self.kind, self.settings = kind, settings

    def __iter__(self) -> Iterator[list[int]]:
        return order(self.kind, self.settings)

    def __len__(self) -> int:
        return self.kind.length // self.settings.batch


def make_loader(kind: Kind, settings: Settings) -> DataLoader:
    workers = {"num_workers": settings.workers, "collate_fn": collate(settings.pad) if kind.sample == "text" else None}
    if settings.workers:
        workers["prefetch_factor"] = settings.prefetch
    if settings.pad == "grouped":
        return DataLoader(Samples(kind), batch_sampler=Grouped(kind, settings), **workers)
    return DataLoader(Samples(kind), batch_size=settings.batch, shuffle=True, **workers)


class Training:
    """Model, optimizer and batches; `epoch` makes optimizer steps until the data or the count is used up."""

    def __init__(self, kind: Kind, settings: Settings) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(settings.threads)
        self.settings, self.loader = settings, make_loader(kind, settings)
        self.model = Model(kind, bool(settings.recompute))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=bool(settings.fused))
        self.steps = 0

    def epoch(self) -> Iterator[int]:
        """Yields after each optimizer step."""
        for number, batch in enumerate(self.loader, 1):
            inputs = batch["input_ids"] if isinstance(batch, dict) else batch
            (self.model(inputs) / self.settings.accumulate).backward()
            if number % self.settings.accumulate:
                continue
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.steps += 1
            if self.settings.save_every and self.steps % self.settings.save_every == 0:
                with tempfile.NamedTemporaryFile(suffix=".pt") as file:
                    state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
                    torch.save(state, file.name)
            yield self.steps


def ends(kind: Kind, settings: Settings) -> Iterator[float]:
    """When steps ended, after those whose batches were ready before the first, or after the first epoch."""
    training = Training(kind, settings)
    if kind.length < LONG:
        for _ in training.epoch():
            pass
    ready = training.steps + 3 + settings.workers * settings.prefetch // settings.accumulate
    while True:
        for step in training.epoch():
            if step >= ready:
                yield time.monotonic()


def whole(kind: Kind, settings: Settings) -> int:
    """Steps that stand for all: an epoch, a megabatch of texts of all lengths, from save to save."""
    if kind.length < LONG:
        return len(make_loader(kind, settings)) // settings.accumulate
    return -(-MEGABATCH // settings.accumulate) if kind.sample == "text" else max(1, settings.save_every)


def settings_of(words: str) -> Settings:
    pairs = dict(word.split("=") for word in words.split())
    return replace(Settings(), **{name: value if name == "pad" else int(value) for name, value in pairs.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="+", metavar="'NAME=VALUE ...'")
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--result", help="File for the measured times, as JSON.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="Of turns, of one setting in one round.")
    args = parser.parse_args()
    kind, every = KINDS[args.kind], {words: settings_of(words) for words in args.settings}
    if args.result is None:
        training = Training(kind, next(iter(every.values())))
        while True:
            for _ in training.epoch():
                pass
    # Threads that this process had made would be missing, and waited for, in those that are forked.
    torch.set_num_threads(1)
    # Told to end, it ends those that are stopped too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # An optimizer imports it at its first update, which takes a second: once for all that are forked.
    importlib.import_module("torch._dynamo")
    rounds: dict[str, list[float]] = {words: [] for words in every}
    begun = [partial(ends, kind, settings) for settings in every.values()]
    steps = [whole(kind, settings) for settings in every.values()]
    for _ in range(args.rounds):
        for words, ms in zip(every, turns.step_ms(begun, args.seconds, steps, kind.io_ms / 1e3), strict=True):
            rounds[words].append(ms)
    with open(args.result, "w", encoding="utf-8") as file:
        json.dump(rounds, file)


if __name__ == "__main__":
    main()
