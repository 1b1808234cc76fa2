"""Several gains together: the step is rebuilt without what each removes of it; percentages are never multiplied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Basis, Gain, speedup_without
from autotune.model.rule import GainSpec
from autotune.predict.gain_inputs import TRAIN, gain, number, saved_s

COMPUTE = ("forward", "recompute", "backward", "optimizer")
BASES: tuple[Basis, ...] = ("measured", "modelled", "profiled", "bound")
"""The strongest first."""

Part = tuple[str, Gain]
"""A gain and the part of the step that it removes: a phase, "compute", "workers" (the wait, by more workers),
THREADS, or CPUS."""

THREADS, CPUS = "threads", "cpus"
"""Fewer threads shorten what is computed and the wait for batches; CPUS are these and workers together."""


def target(spec: GainSpec) -> str:
    """The part of the step that a rule's what-if removes: a phase, "compute", "workers", or the share's own name.

    Padding, kernels and the fixed part of micro-batches are of compute as a whole.
    """
    if spec.what_if == "measured_ceiling":
        return "data_wait"
    if spec.what_if in ("workers", THREADS):
        return spec.what_if
    if spec.what_if == "amortised":
        return spec.arguments["cost"]
    if spec.what_if in ("batch_curve", "padding", "tensor_cores"):
        return "compute"
    whole = (spec.arguments.get("of") or spec.arguments["share"]).removesuffix("_share")
    return _TARGETS.get(whole, whole.removeprefix("step."))


_TARGETS: Mapping[str, str] = {
    "loader.wait": "data_wait",
    "loader.input": "data_wait",
    "loader.epoch_start": "data_wait",
    "optimizer.step": "optimizer",
    "device.busy": "compute",
}


def combine(parts: Sequence[Part], evidence: Evidence) -> Gain | None:
    """The gain of all `parts` together, with the weakest of their bases; None without any.

    Parts of different phases add up. Of several gains on one phase the largest counts. A gain on all of
    compute and one on a phase of compute overlap: of what the phase loses, the former no longer has its
    share. Batches that are prepared beside training keep their pace: the rebuilt step is not shorter than that.
    """
    if not parts:
        return None
    compute, paced = number(evidence, RUN, "step.compute_share"), _paced_share({name for name, _ in parts}, evidence)
    speedup = _together([(name, part.speedup) for name, part in parts], compute, paced)
    low = _together([(name, part.low) for name, part in parts], compute, paced)
    high = _together([(name, part.high) for name, part in parts], compute, paced)
    weakest = max((part.basis for _, part in parts), key=BASES.index)
    together = gain(evidence, RUN, speedup, (low, high), weakest)
    if together.saved_s is None:
        return together
    return replace(together, saved_s=together.saved_s + _of_the_run_s(parts, evidence))


def _of_the_run_s(parts: Sequence[Part], evidence: Evidence) -> float:
    """Seconds that parts save beyond their share of the window: saves and evaluations are a share of the whole run."""
    largest: dict[str, Gain] = {}
    for name, part in parts:
        largest[name] = max(part, largest.get(name, part), key=lambda each: each.share)
    beside = ((part.saved_s, saved_s(evidence, part.speedup)) for part in largest.values())
    return sum(own - share for own, share in beside if own is not None and share is not None)


def _paced_share(names: set[str], evidence: Evidence) -> float:
    """The time in which workers prepare a step's batches, of today's step; 0 where nothing is known of it.

    It is today's workers' pace, or with a gain on workers theirs, alone. A gain that makes batches themselves
    cheaper changes it by what is not known.
    """
    per_step, step = number(evidence, TRAIN, "loader.batches_per_step"), number(evidence, RUN, "step.mean_ms")
    count, batch = number(evidence, TRAIN, "loader.num_workers"), number(evidence, TRAIN, "loader.batch_ms")
    pace = batch / count if batch and count else None
    if names & {"workers", CPUS}:
        pace = number(evidence, TRAIN, "loader.alone_batch_ms")
    if "data_wait" in names or pace is None or not per_step or not step:
        return 0.0
    return pace * per_step / step


def _together(speedups: Sequence[tuple[str, float]], compute: float | None, paced: float) -> float:
    """The speedup when the shares of today's step that each removes go away together, down to `paced` of it."""
    largest: dict[str, float] = {}
    for name, speedup in speedups:
        phase, share = "data_wait" if name == "workers" else name, 1 - 1 / speedup
        largest[phase] = max(share, largest.get(phase, share))
    # What one part leaves by itself is not taken back.
    most = max(1 - paced, *largest.values())
    both = max(largest.pop(CPUS, 0.0), largest.pop(THREADS, 0.0))
    whole = largest.pop("compute", 0.0)
    inside = sum(share for name, share in largest.items() if name in COMPUTE)
    outside = sum(share for name, share in largest.items() if name not in COMPUTE)
    rest = outside + _overlapping(whole, inside, compute)
    return speedup_without(min(most, both + (1 - both) * rest))


def _overlapping(whole: float, inside: float, compute: float | None) -> float:
    """`whole` is removed evenly of compute, `inside` from one place of it; unknown compute: only the larger counts."""
    if not compute or compute < max(whole, inside):
        return max(whole, inside)
    return whole + inside - whole * inside / compute
