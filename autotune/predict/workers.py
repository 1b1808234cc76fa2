"""What-if: another number of workers, or another prefetch factor, prepares the batches."""

from __future__ import annotations

import math
from dataclasses import replace

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.predict.known import Arguments, gain, number
from autotune.predict.measured_ceiling import measured_ceiling, step_without_wait_ms
from autotune.predict.pipeline import Pipeline, batch_ms

PREFETCH = 2
"""torch's prefetch_factor where none is given."""

MODEL_ERROR = 0.15
SLOWER_ALONE = 1.0
NEEDED = "loader.workers_needed"
COSTS = (
    "loader.serial_ms",
    "loader.one_worker_ms",
    "loader.handover_ms",
    "loader.start_ms_per_worker",
    "loader.batch_cpu_share",
    "machine.cpus_per_rank",
)


def workers(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """Step time now / with `workers` of them (loader.workers_needed unless told) and `prefetch` each (as now).

    Costs come from the loader alone with 0 and 1 workers, from the window (training, with no workers) or the
    replay (with some), and go through the model of `pipeline`. The start of an epoch's workers counts, once a run
    with `persistent` = "true". The interval is the noise of what was measured and the error of the model. Where
    the loader was not tried alone it is the measured ceiling.
    """
    count = number(evidence, subject, NEEDED) if "workers" not in arguments else float(arguments["workers"])
    costs = pipeline(evidence, subject, arguments.get("persistent") == "true")
    now = number(evidence, subject, "loader.num_workers")
    if costs is None or count is None or now is None:
        return measured_ceiling({}, evidence, subject)
    each = number(evidence, subject, "loader.prefetch_factor") or PREFETCH
    before = batch_ms(costs, round(now), round(each))
    after = batch_ms(costs, round(count), round(float(arguments.get("prefetch", each))))
    speedup = before / after
    doubt = _doubt(evidence, subject, speedup)
    return gain(evidence, subject, speedup, (speedup * (1 - doubt), speedup * (1 + doubt)), "modelled")


def pipeline(evidence: Evidence, subject: str, persistent: bool) -> Pipeline | None:
    """The costs of one batch; None when the loader was not tried alone or the cores are unknown."""
    known = [value for name in COSTS if (value := number(evidence, subject, name)) is not None]
    compute = _compute_ms(evidence, subject)
    if len(known) < len(COSTS) or compute is None:
        return None
    serial, one, handover, start, cpu_share, cores = known
    in_worker = min(max(one, serial), serial * max(1.0, cores) + SLOWER_ALONE)
    io = serial * (1 - cpu_share)
    threads = number(evidence, subject, "run.num_threads") or 1.0
    costs = Pipeline(
        serial_ms=serial,
        io_ms=io,
        cpu_ms=in_worker - io,
        handover_ms=handover,
        compute_ms=compute,
        start_ms=start,
        cores=cores,
        threads=min(threads, cores) if evidence.lookup(subject, "device.type") == "cpu" else 1.0,
        batches=_batches(evidence, subject, persistent),
        cv=number(evidence, subject, "loader.batch_cv") or 0.0,
    )
    waited = number(evidence, subject, "loader.wait_ms")
    return replace(costs, serial_ms=waited) if waited and not number(evidence, subject, "loader.num_workers") else costs


def _compute_ms(evidence: Evidence, subject: str) -> float | None:
    """What training takes per batch that is there: without workers the step less the wait, else the replay."""
    names = ("step.mean_ms", "loader.batches_per_step", "loader.wait_share")
    known = [value for name in names if (value := number(evidence, subject, name)) is not None]
    if len(known) < len(names) or not known[1]:
        return None
    now, per_step, wait = known
    if not number(evidence, subject, "loader.num_workers"):
        return now * (1 - wait) / per_step
    without = step_without_wait_ms(evidence, subject)
    return None if without is None else without / per_step


def _batches(evidence: Evidence, subject: str, persistent: bool) -> int | None:
    """Batches between two starts of the workers."""
    epoch = number(evidence, subject, "loader.num_batches")
    lives_on = persistent or evidence.lookup(subject, "loader.persistent_workers") is True
    epochs = number(evidence, RUN, "run.num_planned_epochs") if lives_on else 1.0
    return None if epoch is None else max(1, math.floor(epoch * (epochs or 1.0)))


def _doubt(evidence: Evidence, subject: str, speedup: float) -> float:
    noise = number(evidence, subject, "step.noise_share") or 0.0
    return math.hypot(noise, MODEL_ERROR)
