"""A roofline over cards: what operators take on one at best and at worst, and what measured work takes on another.

An operator takes as long as its products at the card's rate, or its bytes at the card's bandwidth, whichever is more.
How near a run comes to these peaks nobody measured: the range is between two assumed shares of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from autotune.catalogue.devices import Device

OF_RATE = (0.30, 0.75)
"""Share of the peak rate of products that large and small ones reach, at least and at most."""

OF_BANDWIDTH = (0.55, 0.90)

KINDS = ("bfloat16", "float16", "float32")
"""Types of the numbers of products whose rates are known."""

PRODUCTS, BYTES = (10**12, 0), (0, 10**9)
"""(operations, bytes) of work that one of the two bounds alone."""


def operator_ms(operations: int, num_bytes: int, kind: str, card: Device) -> tuple[float, float]:
    """Milliseconds of an operator with products of numbers of type `kind`, at best and at worst."""
    fast, slow = _rates(card, kind)
    return (
        max(operations / (fast * 1e9 * OF_RATE[1]), num_bytes / (card.bandwidth * 1e6 * OF_BANDWIDTH[1])),
        max(operations / (slow * 1e9 * OF_RATE[0]), num_bytes / (card.bandwidth * 1e6 * OF_BANDWIDTH[0])),
    )


def times_as_long(kinds: Iterable[str], here: Device, there: Device) -> tuple[float, float]:
    """How many times as long work of `here` takes on `there`, at best and at worst.

    Its products are of numbers of types `kinds`. Which of its operators the rate bounds, and which the bandwidth, is
    not known, so both ends are of one bound alone; the same shares of the peaks are reached on both cards.
    """
    pairs = [
        pair
        for kind in kinds
        for work in (PRODUCTS, BYTES)
        for pair in zip(operator_ms(*work, kind, here), operator_ms(*work, kind, there), strict=True)
    ]
    ratios = [then / now for now, then in pairs]
    return min(ratios), max(ratios)


def _rates(card: Device, kind: str) -> tuple[float, float]:
    """TFLOP/s of products of numbers of type `kind`, at best and at worst: fp32 may run as TF32."""
    if kind in ("bfloat16", "float16"):
        own = card.bf16 if kind == "bfloat16" else card.fp16
        return (own, own) if own is not None else (card.fp32, card.fp32)
    return card.tf32 or card.fp32, card.fp32
