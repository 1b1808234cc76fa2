"""The workloads of loading.py: how a sample of each kind is made, and the width and depth of its model."""

from __future__ import annotations

import base64
import csv
import json
import pickle
import random
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from xml.etree import ElementTree

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
    "remote-uneven": Kind("uneven", io_ms=3.0),
    "json": Kind("json", work=12),
    "mixed": Kind("decode", io_ms=1.5, work=10),
    "text-wide": Kind("text", width=128, depth=2),
    "deep": Kind("memory", width=64, depth=40),
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
    "ranged": Kind("requests", io_ms=9.0, width=256),
    "near": Kind("wait", io_ms=0.8, depth=6),
    "bursts-uneven": Kind("uneven", io_ms=10.0, width=512),
    "xml": Kind("xml", work=5),
    "spectrum": Kind("spectrum", work=15, width=512),
    "unpack": Kind("unpack", work=6),
    "encode-deep": Kind("encode", work=8, width=128, depth=10),
    "mixed-xml": Kind("xml", io_ms=3.0, work=3),
    "mixed-spectrum": Kind("spectrum", io_ms=1.5, work=10),
    "mixed-unpack": Kind("unpack", io_ms=5.0, work=3),
    "pairs": Kind("memory", length=512, features=512, width=128),
    "plain": Kind("memory", features=1024, width=512, depth=2),
    "short-xml": Kind("xml", work=1, length=176),
    "text-long": Kind("text", width=96, depth=3),
    "text-thin": Kind("text", width=48, depth=2),
    "stack": Kind("memory", width=256, depth=20),
    "convolution-wide": Kind("convolution", width=48, depth=3, features=3 * 24 * 24),
}
PARTS = 5
"""Requests that one sample of "requests" takes, one after the other."""

PIXELS = zlib.compress(bytes(range(256)) * 400)
DOCUMENT = json.dumps({"rows": [{"id": n, "text": "some words here", "x": n / 7} for n in range(120)]})
BYTES = bytes(250_000)
TABLE = [",".join(f"{(row * 8 + cell) / 7:.6f}" for cell in range(8)) for row in range(60)]
DIGITS = " ".join(str(n * n % 997) for n in range(5_000)).encode()
NUMBERS = [n * 7_919 % 3_001 / 7 for n in range(3_000)]
MARKUP = "<rows>" + "".join(f"<row id='{n}'><x>{n / 7:.5f}</x>words</row>" for n in range(150)) + "</rows>"

FIELDS = struct.Struct("<id8sh")
PACKED = b"".join(FIELDS.pack(n, n / 7, b"some", n % 99) for n in range(1_200))
PICKLED = pickle.dumps([{"id": n, "text": f"word {n}", "x": n / 7} for n in range(400)])


@cache
def wave() -> torch.Tensor:
    """Made when it is needed: a process that is forked may not have computed with several threads."""
    return torch.sin(torch.arange(16_384) / 7)


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


def markup(times: int) -> None:
    for _ in range(times):
        [float(row.findtext("x") or 0) for row in ElementTree.fromstring(MARKUP)]


def spectrum(times: int) -> None:
    for _ in range(times):
        torch.fft.rfft(wave()).abs().log1p()


def unpack(times: int) -> None:
    for _ in range(times):
        [field[1] for field in FIELDS.iter_unpack(PACKED)]


def encode(times: int) -> None:
    for _ in range(times):
        base64.b64decode(base64.b64encode(BYTES))


WORK: dict[str, Callable[[int], None]] = {
    "decode": decode,
    "uneven": decode,
    "json": parse,
    "csv": table,
    "resize": resize,
    "compress": compress,
    "sort": order_numbers,
    "unpickle": unpickle,
    "files": read,
    "xml": markup,
    "spectrum": spectrum,
    "unpack": unpack,
    "encode": encode,
}
