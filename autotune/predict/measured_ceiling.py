"""What-if: batches come without waiting. Its ceiling was measured by replaying batches from memory."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.model.evidence import Evidence
from autotune.model.finding import Gain
from autotune.predict.known import Arguments, gain, number
from autotune.predict.share_removed import share_removed

WAIT = "loader.wait_share"
IO_BOUND_SHARE = 0.3
BINDING = 1.02
"""A model within 2 % of the measured ceiling adds nothing to it."""

MODEL_ERROR = 0.15
"""Error of the worker model on CPU-bound batches, of the step (3 to 14 % where it was measured)."""

BESIDES = ("step.checkpoint_share", "step.evaluation_share", "step.logging_share")
"""Part of the measured step, but not of a replayed one."""


@dataclass(frozen=True, slots=True)
class _Ceiling:
    """Milliseconds per step now, without waiting, and the ends of the latter's 90 % interval."""

    now: float
    without: float
    low: float
    high: float


def measured_ceiling(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """Step time now / step time with replayed batches, for the wait of this loader.

    The ceiling never exceeds 1 / (1 - wait share) by more than the noise of the step. The workers that are
    proposed prepare so many batches and no more, and CPU-bound ones take cores from training: where that
    keeps the step above the ceiling, the gain is modelled from it. Without a replay it is the bound of the
    wait's share. Optional argument `share`: the fact with the wait's share (loader.wait_share).
    """
    wait = number(evidence, subject, arguments.get("share", WAIT))
    if wait is None or not 0 < wait < 1:
        return None
    ceiling = _ceiling(evidence, subject, wait)
    if ceiling is None:
        return share_removed({"share": arguments.get("share", WAIT)}, evidence, subject)
    if ceiling.without >= ceiling.now:
        return None
    best = ceiling.now / ceiling.without
    fed = _fed_ms(evidence, subject, ceiling)
    if fed is not None and fed > ceiling.without * BINDING:
        return _modelled(evidence, subject, ceiling, fed)
    return gain(evidence, subject, best, (ceiling.now / ceiling.high, ceiling.now / ceiling.low), "measured")


def _ceiling(evidence: Evidence, subject: str, wait: float) -> _Ceiling | None:
    names = ("step.mean_ms", "replay.step_ms", "replay.low_ms", "replay.high_ms", "step.noise_share")
    now, replayed, low, high, noise = (number(evidence, subject, name) for name in names)
    if now is None or replayed is None or low is None or high is None or noise is None:
        return None
    besides = now * sum(number(evidence, subject, name) or 0.0 for name in BESIDES)
    least = now * (1 - wait)
    return _Ceiling(
        now=now,
        without=max(replayed + besides, least),
        low=max((low + besides) * (1 - noise), least * (1 - noise)),
        high=max(high + besides, least) * (1 + noise),
    )


def _modelled(evidence: Evidence, subject: str, ceiling: _Ceiling, fed_ms: float) -> Gain | None:
    """Gain of a step that takes `fed_ms`; None when the model sees none."""
    speedup = ceiling.now / fed_ms
    if speedup <= 1:
        return None
    low = max(1.0, speedup * (1 - MODEL_ERROR))
    high = max(speedup, min(speedup * (1 + MODEL_ERROR), ceiling.now / ceiling.low))
    note = "bounded by what the workers can prepare, and by the CPUs that they share with training"
    return gain(evidence, subject, speedup, (low, high), "modelled", note)


def _fed_ms(evidence: Evidence, subject: str, ceiling: _Ceiling) -> float | None:
    """Least step time with the proposed workers; None when it is unknown.

    A step is not shorter than its batches take with so many workers: as measured with nothing beside them, or
    else the time to prepare them / workers. For CPU-bound batches CPU time is conserved as well: nor is it
    shorter than (training + batches) / cores.
    """
    names = ("loader.batch_ms", "loader.batches_per_step", "loader.workers_needed", "loader.alone_batch_ms")
    batch, per_step, workers, alone = (number(evidence, subject, name) for name in names)
    if per_step is None:
        return None
    if alone is None and batch is not None and workers:
        alone = batch / workers
    shared = None if batch is None else _shared_cores_ms(evidence, subject, ceiling, batch * per_step)
    known = [ms for ms in (None if alone is None else alone * per_step, shared) if ms is not None]
    return max(known, default=None)


def _shared_cores_ms(evidence: Evidence, subject: str, ceiling: _Ceiling, preparing: float) -> float | None:
    """(Training + batches) / cores for CPU-bound batches; None for others and when it is unknown.

    Training on the CPU is counted with as many cores as it has threads, training on a device with one, which
    launches its kernels.
    """
    cpus = number(evidence, subject, "machine.cpus_per_rank")
    busy = number(evidence, subject, "loader.batch_cpu_share")
    if not cpus or busy is None or busy < IO_BOUND_SHARE:
        return None
    threads = number(evidence, subject, "run.num_threads") or 1.0
    used = min(threads, cpus) if evidence.lookup(subject, "device.type") == "cpu" else 1.0
    return (used * ceiling.without + busy * preparing) / cpus
