"""A raw loop over one of several loaders and models, under settings given as words: the workload of prediction.py.

`loading.py --kind decode workers=0` trains until it is stopped. With `--result FILE` it trains under each of several
settings in turn ("workers=0" "workers=2 prefetch=4"), --rounds times forwards and backwards (A B, B A ...), and writes
the milliseconds per optimizer step of every round. Each time is of a process of its own, as a user's run is: what an
earlier one left in the memory allocator makes the next one up to twice as fast. A kind with short epochs is timed over
whole epochs, with the start and the end of its workers; any other after the batches that were ready before the first
step.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

LONG = 100_000
VOCABULARY = 500
LONGEST = 160
MEGABATCH = 50


@dataclass(frozen=True)
class Kind:
    """One workload: how a sample is made, samples in the data, and the width and depth of the model."""

    sample: str
    io_ms: float = 0.0
    work: int = 0
    length: int = LONG
    width: int = 384
    depth: int = 3
    features: int = 64


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


KINDS = {
    "remote": Kind("wait", io_ms=3.0),
    "remote-slow": Kind("wait", io_ms=8.0),
    "remote-uneven": Kind("uneven", io_ms=3.0),
    "decode": Kind("decode", work=12),
    "decode-heavy": Kind("decode", work=40),
    "json": Kind("json", work=12),
    "tokenise": Kind("tokenise", work=12),
    "augment": Kind("augment", work=50),
    "mixed": Kind("decode", io_ms=1.5, work=10),
    "mixed-json": Kind("json", io_ms=3.0, work=6),
    "mixed-uneven": Kind("uneven", io_ms=2.0, work=8),
    "tiny": Kind("memory", length=320),
    "in-memory": Kind("memory", features=8192),
    "short-epoch": Kind("decode", work=4, length=160),
    "short-json": Kind("json", work=2, length=240),
    "remote-short": Kind("wait", io_ms=3.0, length=480),
    "remote-wide": Kind("wait", io_ms=1.0, width=1024),
    "json-wide": Kind("json", work=6, width=1024),
    "hash": Kind("hash", work=4),
    "mixed-hash": Kind("hash", io_ms=2.0, work=2),
    "text": Kind("text", width=96, depth=2),
    "text-wide": Kind("text", width=128, depth=2),
    "text-deep": Kind("text", width=96, depth=4),
    "convolution": Kind("convolution", width=32, depth=4, features=3 * 24 * 24),
    "deep": Kind("memory", width=64, depth=40),
    "wide": Kind("memory", width=1024, depth=3),
}
PIXELS = zlib.compress(bytes(range(256)) * 400)
DOCUMENT = json.dumps({"rows": [{"id": n, "text": "some words here", "x": n / 7} for n in range(120)]})
BYTES = bytes(250_000)
WORDS = re.compile(r"\w+|[^\w\s]")
PROSE = "The quick brown fox, it is said, jumps over the lazy dog; nobody has seen it. " * 12


class Samples(Dataset):
    """Makes a sample of `kind` from its index: always the same amount of work, however long that takes."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return self.kind.length

    def __getitem__(self, index: int) -> torch.Tensor:
        kind, draw = self.kind, random.Random(index)
        if kind.sample == "text":
            length = min(LONGEST, max(4, int(draw.lognormvariate(3.4, 0.7))))
            return torch.randint(1, VOCABULARY, (length,), generator=torch.Generator().manual_seed(index))
        uneven = draw.expovariate(1.0) if kind.sample == "uneven" else 1.0
        if kind.io_ms:
            time.sleep(kind.io_ms * uneven / 1e3)
        if kind.work:
            WORK.get(kind.sample, decode)(round(kind.work * uneven))
        return torch.full((kind.features,), index % 7 / 7)


def decode(times: int) -> None:
    for _ in range(times):
        torch.frombuffer(bytearray(zlib.decompress(PIXELS)), dtype=torch.uint8).float().mean()


def parse(times: int) -> None:
    for _ in range(times):
        json.loads(DOCUMENT)


def tokenise(times: int) -> None:
    for _ in range(times):
        [hash(word.lower()) % VOCABULARY for word in WORDS.findall(PROSE)]


def augment(times: int) -> None:
    image = torch.ones(3, 64, 64)
    for _ in range(times):
        image = torch.flip(image, (2,)) * 0.9 + 0.1


def hashed(times: int) -> None:
    for _ in range(times):
        hashlib.sha256(BYTES).digest()


WORK: dict[str, Callable[[int], None]] = {"json": parse, "tokenise": tokenise, "augment": augment, "hash": hashed}


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


def measured_ms(kind: Kind, settings: Settings, seconds: float) -> float:
    """Milliseconds per optimizer step."""
    training = Training(kind, settings)
    if kind.length < LONG:
        return whole_epochs_ms(training, seconds)
    # Texts differ in length: whole megabatches stand for all.
    per_round = -(-MEGABATCH // settings.accumulate) if kind.sample == "text" else max(1, settings.save_every)
    ready = 3 + settings.workers * settings.prefetch // settings.accumulate
    start = 0.0
    for step in training.epoch():
        now = time.perf_counter()
        if step == ready:
            first, start = step, now
        if start and now - start >= seconds and step > first and (step - first) % per_round == 0:
            return 1e3 * (now - start) / (step - first)
    raise SystemExit("the data ended before the measurement did")


def whole_epochs_ms(training: Training, seconds: float) -> float:
    for _ in training.epoch():
        pass
    begin, start = training.steps, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in training.epoch():
            pass
    return 1e3 * (time.perf_counter() - start) / (training.steps - begin)


def alone_ms(kind: Kind, settings: Settings, seconds: float) -> float:
    """The same of a child that is forked before this process has touched a tensor."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writing, "w") as file:
            file.write(str(measured_ms(kind, settings, seconds)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        told = file.read()
    os.waitpid(child, 0)
    return float(told)


def settings_of(words: str) -> Settings:
    pairs = dict(word.split("=") for word in words.split())
    return replace(Settings(), **{name: value if name == "pad" else int(value) for name, value in pairs.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="+", metavar="'NAME=VALUE ...'")
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--result", help="File for the measured times, as JSON.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="Of one setting in one round.")
    args = parser.parse_args()
    kind, every = KINDS[args.kind], {words: settings_of(words) for words in args.settings}
    if args.result is None:
        training = Training(kind, next(iter(every.values())))
        while True:
            for _ in training.epoch():
                pass
    rounds: dict[str, list[float]] = {words: [] for words in every}
    for number in range(args.rounds):
        for words in list(every)[:: -1 if number % 2 else 1]:
            rounds[words].append(alone_ms(kind, every[words], args.seconds))
    with open(args.result, "w", encoding="utf-8") as file:
        json.dump(rounds, file)


if __name__ == "__main__":
    main()
