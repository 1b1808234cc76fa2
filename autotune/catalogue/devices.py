"""devices.toml: the cards that people rent, by name: memory, bandwidth, rates of products, links between cards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache

from msgspec import Struct, convert

from autotune.catalogue.vocabulary import read
from autotune.errors import UsageError

GIB, MIB = 2**30, 2**20

CUDA_CONTEXT = (350 * MIB, 1400 * MIB)
"""Memory of CUDA's context and of the kernels that are loaded, at least and at most: the former with lazy loading (CUDA
11.7 and newer), the latter without. NCCL is not in it."""


class Link(Struct, frozen=True, forbid_unknown_fields=True):
    """What one card sends to another of its machine: GB/s in one direction, and over what."""

    gb_per_s: float
    over: str


class Market(Struct, frozen=True, forbid_unknown_fields=True):
    """What gpuhunt's catalogue calls a card: name, GB of memory as sold, and "sxm" or "pcie" where there are both."""

    name: str
    memory: float
    form: str | None = None


class Device(Struct, frozen=True, forbid_unknown_fields=True):
    """A card. The keys are described at the head of devices.toml; rates are TFLOP/s, None where it has no such product.

    `name` is that of its table.
    """

    title: str
    names: tuple[tuple[str, ...], ...]
    memory_gib: float
    bandwidth: float
    fp32: float
    link: Link
    source: str
    memory_from: str
    name: str = ""
    ask: tuple[str, ...] = ()
    capability: tuple[int, int] | None = None
    tf32: float | None = None
    fp16: float | None = None
    bf16: float | None = None
    market: Market | None = None

    @property
    def memory_bytes(self) -> int:
        return int(self.memory_gib * GIB)


class ProductRatios(Struct, frozen=True):
    """How much faster products are on tensor cores than in fp32, by the peak rates."""

    tf32: float
    bf16: float


@cache
def devices() -> Mapping[str, Device]:
    """Every card by its name, in the order of the file."""
    rows = read("devices.toml")
    return {name: convert({**row, "name": name}, Device) for name, row in rows.items()}


def asked(name: str, where: str = "--on") -> Device:
    """The card that a user calls `name` (a100-80, 4090, H100), in the option or file `where`.

    Raises UsageError for an unlisted name.
    """
    plain = _plain(name)
    known = {_plain(word): one for one in devices().values() for word in (one.name, *one.ask)}
    if plain not in known:
        near = get_close_matches(plain, known, n=1)
        guess = f"Did you mean {known[near[0]].name}? " if near else ""
        listed = ", ".join(devices())
        raise UsageError(f"the card {name!r} is not known", where=where, to_do=f"{guess}Known are {listed}.")
    return known[plain]


def named(gpu_name: str | None) -> Device | None:
    """The card whose driver reports `gpu_name` ("NVIDIA H100 80GB HBM3"); None where it is not listed.

    A MIG slice ("NVIDIA A100-SXM4-80GB MIG 1g.10gb") has a part of a card's memory and rates: it is none.
    """
    found = [
        (sum(map(len, words)), one)
        for one in devices().values()
        for words in one.names
        if gpu_name and not _has(gpu_name, "MIG") and all(_has(gpu_name, word) for word in words)
    ]
    return max(found, key=lambda each: each[0])[1] if found else None


def product_ratios(gpu_name: str | None, capability: tuple[int, ...] | None) -> ProductRatios | None:
    """The card's own, else the largest of the cards of its compute capability; None where neither is known."""
    own = named(gpu_name)
    alike = [own] if own else [one for one in devices().values() if capability and one.capability == capability]
    pairs = [ProductRatios(one.tf32 / one.fp32, one.bf16 / one.fp32) for one in alike if one.tf32 and one.bf16]
    return max(pairs, key=lambda each: each.bf16, default=None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _has(text: str, word: str) -> bool:
    """Whether `word` stands in `text` as a whole: A10 is not in A100 or A10G."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", text, re.IGNORECASE) is not None
