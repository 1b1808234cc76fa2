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

    The ceiling never exceeds 1 / (1 - wait share) by more than the noise of the step. CPU-bound batches
    prepared by workers take cores from training: where the cores of this process do not carry both, the gain
    is modelled from the CPU time of both and lies below the ceiling. Without a replay it is the bound of the
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
    shared = _shared_cores_ms(evidence, subject, ceiling)
    if shared is not None and shared > ceiling.without * BINDING:
        return _modelled(evidence, subject, ceiling, shared)
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


def _modelled(evidence: Evidence, subject: str, ceiling: _Ceiling, shared_ms: float) -> Gain | None:
    """Gain where cores are shared; None when the model sees none."""
    speedup = ceiling.now / shared_ms
    if speedup <= 1:
        return None
    low = max(1.0, speedup * (1 - MODEL_ERROR))
    note = "workers and training share the CPUs of this process"
    return gain(evidence, subject, speedup, (low, max(speedup, ceiling.now / ceiling.low)), "modelled", note)


def _shared_cores_ms(evidence: Evidence, subject: str, ceiling: _Ceiling) -> float | None:
    """Step time when CPU-bound workers and training share the cores; None when they do not or it is unknown.

    CPU time is conserved: a step cannot be shorter than (training + batches) / cores, nor than the batches of
    a step / workers. Training on the CPU is counted with as many cores as it has threads, training on a
    device with one, which launches its kernels.
    """
    names = ("loader.batch_ms", "loader.batches_per_step", "loader.workers_needed", "machine.cpus_per_rank")
    batch, per_step, workers, cpus = (number(evidence, subject, name) for name in names)
    busy = number(evidence, subject, "loader.batch_cpu_share")
    if batch is None or per_step is None or not workers or not cpus or busy is None or busy < IO_BOUND_SHARE:
        return None
    threads = number(evidence, subject, "run.num_threads") or 1.0
    used = min(threads, cpus) if evidence.lookup(subject, "device.type") == "cpu" else 1.0
    preparing = batch * per_step
    return max(preparing / workers, (used * ceiling.without + busy * preparing) / cpus)
