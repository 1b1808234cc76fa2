"""Lengths and padding of the training batches, and what other ways of batching would make of the same lengths."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev

from autotune.derive.recording_view import RecordingView
from autotune.derive.step import train_batches
from autotune.derive.summary_statistics import SEED, most_common, quantile
from autotune.model.evidence import Fact, Value
from autotune.model.recording import Batch

MEGABATCHES = 50
"""transformers' group_by_length shuffles, cuts into megabatches of 50 batches and sorts inside each."""

LEAST_BATCHES = 4
UNFILLED = 7 / 8
"""A batch whose longest sample is under 7/8 of the width is not filled: rounding to a multiple of 8 is no padding."""

UNFILLED_BATCHES = 0.25
MOST_DRAWN = 20_000


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `loader.*` of lengths, for loader#train."""
    batches = train_batches(view)
    if view.train is None or not batches:
        return
    yield Fact("loader.num_shapes", view.train.subject, len({batch.shapes for batch in batches}))
    growth = doubled_growth_share(batches)
    if growth is not None:
        yield Fact("loader.doubled_growth_share", view.train.subject, growth)
    known = [batch for batch in batches if batch.lengths and batch.width]
    length = view.train.own["dataset"]["length"]
    for name, value in {**_lengths(known), **_padding(known, length)}.items():
        if value is not None:
            yield Fact(f"loader.{name}", view.train.subject, value)


def _lengths(batches: Sequence[Batch]) -> dict[str, Value | None]:
    lengths = all_lengths(batches)
    if not lengths:
        return {}
    longest, average = max(lengths), fmean(lengths)
    shorter = [length for length in lengths if length < longest]
    return {
        "num_lengths": len(lengths),
        "len_p50": round(quantile(lengths, 0.5)),
        "len_p99": round(quantile(lengths, 0.99)),
        "len_max": longest,
        "len_cv": pstdev(lengths) / average if average else None,
        "width": max(batch.width or 0 for batch in batches),
        "at_limit_share": lengths.count(longest) / len(lengths),
        "shorter_ratio": fmean(shorter) / longest if shorter else None,
    }


def _padding(batches: Sequence[Batch], dataset_length: int | None) -> dict[str, Value | None]:
    rows = [batch.lengths or () for batch in batches]
    computed = sum((batch.width or 0) * len(batch.lengths or ()) for batch in batches)
    if not computed:
        return {}
    size = most_common(len(row) for row in rows)
    return {
        "pad_share": 1 - sum(map(sum, rows)) / computed,
        "dynamic_pad_share": pad_share(rows),
        "grouped_pad_share": grouped_pad_share(all_lengths(batches), size[0] if size else 1, dataset_length),
        "is_static_padding": is_static(batches),
    }


def all_lengths(batches: Sequence[Batch]) -> list[int]:
    return [length for batch in batches for length in batch.lengths or ()]


def pad_share(rows: Sequence[Sequence[int]]) -> float:
    """Padding when each batch (a row of lengths) is padded to its own longest sample."""
    computed = sum(max(row) * len(row) for row in rows)
    return 1 - sum(map(sum, rows)) / computed if computed else 0.0


def grouped_pad_share(lengths: Sequence[int], batch_size: int, dataset_length: int | None) -> float | None:
    """Padding under group_by_length, simulated on draws from `lengths`; None under four batches of lengths.

    As transformers does: megabatches of min(samples // (4 x batch), 50) batches. The recorded lengths stand
    for the dataset, so that a megabatch of the real run is filled by drawing from them (fixed seed).
    """
    if batch_size < 1 or len(lengths) < LEAST_BATCHES * batch_size:
        return None
    total = dataset_length if dataset_length is not None else MEGABATCHES * batch_size * 4
    mega = batch_size * max(1, min(total // (batch_size * 4), MEGABATCHES))
    draw = random.Random(SEED)
    rows: list[list[int]] = []
    for _ in range(max(1, MOST_DRAWN // mega)):
        ordered = sorted(draw.choices(lengths, k=mega), reverse=True)
        rows += [ordered[i : i + batch_size] for i in range(0, mega, batch_size)]
    return pad_share(rows)


def doubled_growth_share(batches: Sequence[Batch]) -> float | None:
    """What micro-batches of twice the size would compute on top of today's, as a share of it.

    Two batches in a row stand for one of twice the size, which is as wide as the wider of them; where all have
    one shape that is nothing on top. None without two batches that can be joined.
    """
    alone = joined = 0
    for one, two in zip(batches[::2], batches[1::2], strict=False):
        shapes = _sample_shape(one), _sample_shape(two)
        if one.num_samples and two.num_samples and len(shapes[0]) == len(shapes[1]):
            alone += one.num_samples * math.prod(shapes[0]) + two.num_samples * math.prod(shapes[1])
            joined += (one.num_samples + two.num_samples) * math.prod(map(max, *shapes))
    return joined / alone - 1 if alone else None


def _sample_shape(batch: Batch) -> tuple[int, ...]:
    """One sample's share of a batch: its padded width in tokens, else the first tensor without its first dimension."""
    return (batch.width,) if batch.width else (batch.shapes or ((),))[0][1:]


def is_static(batches: Sequence[Batch]) -> bool | None:
    """Whether a fixed width is forced on the batches; None under four batches.

    Equal widths alone are no proof: where most batches hold a sample that was cut at the limit, padding to
    the longest gives equal widths too. So a quarter of the batches must be clearly unfilled.
    """
    if len(batches) < LEAST_BATCHES:
        return None
    widths = {batch.width for batch in batches}
    unfilled = sum(max(batch.lengths or (0,)) < UNFILLED * (batch.width or 0) for batch in batches)
    return len(widths) == 1 and unfilled >= UNFILLED_BATCHES * len(batches)
