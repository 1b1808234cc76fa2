"""The workloads of loading.py: how a sample of each kind is made, and the width and depth of its model."""

from __future__ import annotations

import csv
import hashlib
import json
import pickle
import random
import re
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import Dataset

LONG = 100_000
VOCABULARY = 500
LONGEST = 160


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
    "requests": Kind("requests", io_ms=4.0),
    "requests-short": Kind("requests", io_ms=2.0, length=400),
    "far": Kind("wait", io_ms=15.0),
    "far-uneven": Kind("uneven", io_ms=6.0, width=768),
    "near-deep": Kind("wait", io_ms=2.0, width=96, depth=16),
    "csv": Kind("csv", work=10),
    "resize": Kind("resize", work=12),
    "compress": Kind("compress", work=2),
    "sort-wide": Kind("sort", work=12, width=1024),
    "unpickle": Kind("unpickle", work=8),
    "files": Kind("files", work=25),
    "mixed-csv": Kind("csv", io_ms=2.0, work=8),
    "mixed-sort": Kind("sort", io_ms=1.0, work=8),
    "mixed-resize": Kind("resize", io_ms=4.0, work=6),
    "mixed-unpickle": Kind("unpickle", io_ms=6.0, work=12),
    "small": Kind("memory", length=256, features=256),
    "in-memory-wide": Kind("memory", features=4096, width=256),
    "short-csv": Kind("csv", work=1, length=200),
    "light": Kind("sort", work=1, length=1200, width=64),
    "text-narrow": Kind("text", width=64, depth=3),
    "text-heavy": Kind("text", width=192, depth=1),
    "text-tall": Kind("text", width=64, depth=6),
    "narrow": Kind("memory", width=128, depth=12),
    "flat": Kind("memory", width=2048, depth=1),
    "convolution-deep": Kind("convolution", width=24, depth=8, features=3 * 24 * 24),
}
PARTS = 5
"""Requests that one sample of "requests" takes, one after the other."""

PIXELS = zlib.compress(bytes(range(256)) * 400)
DOCUMENT = json.dumps({"rows": [{"id": n, "text": "some words here", "x": n / 7} for n in range(120)]})
BYTES = bytes(250_000)
TABLE = [",".join(f"{(row * 8 + cell) / 7:.6f}" for cell in range(8)) for row in range(60)]
DIGITS = " ".join(str(n * n % 997) for n in range(5_000)).encode()
NUMBERS = [n * 7_919 % 3_001 / 7 for n in range(3_000)]
PICKLED = pickle.dumps([{"id": n, "text": f"word {n}", "x": n / 7} for n in range(400)])
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
            wait(kind.io_ms * uneven / 1e3, PARTS if kind.sample == "requests" else 1)
        if kind.work:
            WORK[kind.sample](round(kind.work * uneven))
        return torch.full((kind.features,), index % 7 / 7)


def wait(seconds: float, parts: int) -> None:
    """Sleeps, `parts` times in a row for a part of it."""
    for _ in range(parts):
        time.sleep(seconds / parts)


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


def table(times: int) -> None:
    for _ in range(times):
        [[float(cell) for cell in row] for row in csv.reader(TABLE)]


def resize(times: int) -> None:
    image = torch.ones(1, 3, 96, 96)
    for _ in range(times):
        nn.functional.interpolate(image, size=(64, 64), mode="bilinear")


def compress(times: int) -> None:
    for _ in range(times):
        zlib.compress(DIGITS)


def order_numbers(times: int) -> None:
    for _ in range(times):
        sorted(NUMBERS)


def unpickle(times: int) -> None:
    for _ in range(times):
        pickle.loads(PICKLED)


def read(times: int) -> None:
    for _ in range(times):
        with open(torch.__file__, "rb") as file:
            file.read()


WORK: dict[str, Callable[[int], None]] = {
    "decode": decode,
    "uneven": decode,
    "json": parse,
    "tokenise": tokenise,
    "augment": augment,
    "hash": hashed,
    "csv": table,
    "resize": resize,
    "compress": compress,
    "sort": order_numbers,
    "unpickle": unpickle,
    "files": read,
}
