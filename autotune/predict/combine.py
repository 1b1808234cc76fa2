"""Several gains together: what each removes of today's step is added up, never multiplied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Basis, Gain, speedup_without
from autotune.model.rule import GainSpec
from autotune.predict.known import gain, number

COMPUTE = ("forward", "recompute", "backward", "optimizer")
BASES: tuple[Basis, ...] = ("measured", "modelled", "bound")
"""The strongest first."""

Part = tuple[str, Gain]
"""A gain and the part of the step that it removes: a phase, or "compute"."""


def target(spec: GainSpec) -> str:
    """The part of the step that a rule's what-if removes: a phase, "compute", or the share's own name.

    Padding, kernels and the fixed part of micro-batches are of compute as a whole.
    """
    if spec.what_if == "measured_ceiling":
        return "data_wait"
    if spec.what_if == "amortised":
        return spec.arguments["cost"]
    if spec.what_if == "batch_curve":
        return "compute"
    whole = (spec.arguments.get("of") or spec.arguments["share"]).removesuffix("_share")
    return _TARGETS.get(whole, whole.removeprefix("step."))


_TARGETS: Mapping[str, str] = {
    "loader.wait": "data_wait",
    "loader.epoch_start": "data_wait",
    "optimizer.step": "optimizer",
    "device.busy": "compute",
}


def combine(parts: Sequence[Part], evidence: Evidence) -> Gain | None:
    """The gain of all `parts` together, with the weakest of their bases; None without any.

    Parts of different phases add up. Of several gains on one phase the largest counts. A gain on all of
    compute and one on a phase of compute overlap: of what the phase loses, the former no longer has its
    share.
    """
    if not parts:
        return None
    compute = number(evidence, RUN, "step.compute_share")
    speedup = _together([(name, part.speedup) for name, part in parts], compute)
    low = _together([(name, part.low) for name, part in parts], compute)
    high = _together([(name, part.high) for name, part in parts], compute)
    weakest = max((part.basis for _, part in parts), key=BASES.index)
    return gain(evidence, RUN, speedup, (low, high), weakest)


def _together(speedups: Sequence[tuple[str, float]], compute: float | None) -> float:
    """The speedup when the shares of today's step that each removes go away together."""
    largest: dict[str, float] = {}
    for name, speedup in speedups:
        share = 1 - 1 / speedup
        largest[name] = max(share, largest.get(name, share))
    whole = largest.pop("compute", 0.0)
    inside = sum(share for name, share in largest.items() if name in COMPUTE)
    outside = sum(share for name, share in largest.items() if name not in COMPUTE)
    return speedup_without(outside + _overlapping(whole, inside, compute))


def _overlapping(whole: float, inside: float, compute: float | None) -> float:
    """`whole` is removed evenly of compute, `inside` from one place of it; unknown compute: only the larger counts."""
    if not compute or compute < max(whole, inside):
        return max(whole, inside)
    return whole + inside - whole * inside / compute
