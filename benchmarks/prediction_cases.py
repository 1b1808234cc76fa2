"""What prediction.py measures: settings of loading.py that are recorded, and those that are predicted and applied.

Constants of the model may be set by the cases of the "fit" half only. What is reported is the other half: workloads
that were added once the model was what it is.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

Arguments = dict[str, str | int | bool]
PADDING: Arguments = {"share": "loader.pad_share", "of": "step.compute_share"}
FUSED: Arguments = {"share": "optimizer.step_share", "ratio": "replay.fused_ratio", "low": "3", "high": "30"}
RECOMPUTE: Arguments = {"share": "step.recompute_share", "all": "true"}
TOGETHER = "step_ms"
"""No what-if of a rule: `predict.step_ms`, with the changed settings as its arguments."""

LOADERS = {
    "I/O": (
        ("requests", "requests-short", "far", "far-uneven", "near-deep"),
        ("ranged", "near", "bursts-uneven"),
    ),
    "CPU": (
        ("csv", "resize", "compress", "sort-wide", "unpickle", "files"),
        ("xml", "spectrum", "unpack", "encode-deep"),
    ),
    "mixed": (
        ("mixed-csv", "mixed-sort", "mixed-resize", "mixed-unpickle"),
        ("mixed-xml", "mixed-spectrum", "mixed-unpack"),
    ),
    "0 wins": (
        ("small", "in-memory-wide", "short-csv", "light"),
        ("pairs", "plain", "short-xml"),
    ),
}
"""Kinds of loading.py: those that constants of the model may be set by, and those that were held out."""

PADDED = (("text-narrow", "text-heavy", "text-tall"), ("text-long", "text-thin"))
ACCUMULATED = (
    (("narrow", 2), ("text-heavy", 2), ("flat", 8), ("text-narrow", 4), ("convolution-deep", 2)),
    (("stack", 2), ("text-long", 2), ("convolution-wide", 2)),
)
SAVED = (("narrow", "flat", "convolution-deep"), ("stack", "convolution-wide"))
SWITCHED = (("narrow", "flat", "text-heavy", "convolution-deep"), ("stack", "text-long", "convolution-wide"))
TOGETHER_KINDS = (
    ("requests", "mixed-csv", "far-uneven", "sort-wide", "mixed-sort"),
    ("ranged", "bursts-uneven", "spectrum", "mixed-xml"),
)
HALVES = ("fit", "held out")


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Settings that were not recorded, and the what-if that predicts them."""

    words: str
    what_if: str
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Base:
    """What is recorded: the script under settings; `group` names the row of the table that it counts in."""

    group: str
    words: str
    held_out: tuple[HeldOut, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of the script and what is recorded of it."""

    sort: str
    kind: str
    half: str
    bases: tuple[Base, ...]

    @property
    def name(self) -> str:
        return f"{self.sort} {self.kind}".replace("/", "").replace(" ", "-")

    @property
    def settings(self) -> list[str]:
        """Everything that is timed, once."""
        return list(dict.fromkeys(w for base in self.bases for w in (base.words, *(h.words for h in base.held_out))))


def cases() -> list[Case]:
    """Every case of the benchmark, those of one sort not after one another: a part of them is of all sorts."""
    found: list[Case] = []
    for number, half in enumerate(HALVES):
        made = [
            [Case("padding", kind, half, padded()) for kind in PADDED[number]],
            [Case("batch x accumulation", kind, half, accumulated(size)) for kind, size in ACCUMULATED[number]],
            [Case("checkpoint interval", kind, half, saved()) for kind in SAVED[number]],
            [Case("switches", kind, half, switched()) for kind in SWITCHED[number]],
            [Case("several at once", kind, half, together()) for kind in TOGETHER_KINDS[number]],
            *([Case(sort, kind, half, loaded(sort, kind)) for kind in LOADERS[sort][number]] for sort in LOADERS),
        ]
        found += [case for row in itertools.zip_longest(*made) for case in row if case is not None]
    return found


def workers(count: int, prefetch: int | None = None) -> HeldOut:
    words = f"workers={count}" + (f" prefetch={prefetch}" if prefetch else "")
    return HeldOut(words, "workers", {"workers": count, **({"prefetch": prefetch} if prefetch else {})})


def loaded(group: str, kind: str) -> tuple[Base, ...]:
    """Recorded without and with a worker."""
    more = (workers(2, 8),) if kind.endswith("uneven") else ()
    none = Base(group, "workers=0", (*map(workers, (1, 2, 3, 4)), *more))
    return none, Base(group, "workers=1", tuple(map(workers, (0, 2, 3, 4))))


def padded() -> tuple[Base, ...]:
    bases: list[Base] = []
    for size in (8, 16):
        words = {pad: f"batch={size} pad={pad}" for pad in ("static", "dynamic", "grouped")}
        left: dict[str, Arguments] = {pad: {**PADDING, "left": f"loader.{pad}_pad_share"} for pad in words}
        held = tuple(HeldOut(words[pad], "padding", left[pad]) for pad in ("dynamic", "grouped"))
        bases += [Base("padding", words["static"], held), Base("padding", words["dynamic"], held[1:])]
    return tuple(bases)


def accumulated(size: int) -> tuple[Base, ...]:
    """Micro-batches of `size`, and up to eight times as large."""
    held = [HeldOut(f"batch={size * k} accumulate={8 // k}", "batch_curve", {"factor": k}) for k in (2, 4, 8)]
    return (Base("batch x accumulation", f"batch={size} accumulate=8", tuple(held)),)


def saved() -> tuple[Base, ...]:
    arguments: dict[int, Arguments] = {k: {"cost": "checkpoint", "factor": k} for k in (2, 4, 8)}
    held = tuple(HeldOut(f"batch=64 save_every={4 * k}", "amortised", arguments[k]) for k in arguments)
    return (Base("checkpoint interval", "batch=64 save_every=4", held),)


def switched() -> tuple[Base, ...]:
    """One switch each: fused updates, threads, no activation checkpointing."""
    two = HeldOut("batch=32 threads=2", TOGETHER, {"train.num_threads": 2})
    one = HeldOut("batch=32", TOGETHER, {"train.num_threads": 1})
    return (
        Base("fused", "batch=32", (HeldOut("batch=32 fused=1", "local_ratio", FUSED),)),
        Base("threads", "batch=32 threads=2", (one,)),
        Base("threads", "batch=32 fused=1", (HeldOut("batch=32 threads=2 fused=1", two.what_if, two.arguments),)),
        Base("activation checkpointing", "batch=32 recompute=1", (HeldOut("batch=32", "share_removed", RECOMPUTE),)),
    )


def together() -> tuple[Base, ...]:
    """Several settings at once."""
    held = (
        candidate("workers=2 batch=8 accumulate=1", 2, 8, 1),
        candidate("workers=1 batch=4 accumulate=2", 1, 4, 2),
        candidate("workers=2 batch=8 accumulate=1 fused=1", 2, 8, 1, True),
        candidate("workers=0 batch=8 accumulate=1 fused=1", 0, 8, 1, True),
    )
    return (Base("several at once", "workers=0 batch=2 accumulate=4", held),)


def candidate(words: str, count: int, size: int, accumulate: int, fused: bool = False) -> HeldOut:
    arguments: Arguments = {
        "loader.num_workers": count,
        "loader.batch_size": size,
        "train.accumulation_steps": accumulate,
    }
    return HeldOut(words, TOGETHER, {**arguments, **({"optimizer.fused": True} if fused else {})})
