"""What-if: another number of workers, or another prefetch factor, prepares the batches."""

from __future__ import annotations

import math

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain, speedup_without
from autotune.predict.gain_inputs import Arguments, gain, number, step_error
from autotune.predict.measured_ceiling import measured_ceiling, replayed_ms
from autotune.predict.pipeline import Pipeline, batch_ms, epoch_ms

PREFETCH = 2
"""torch's prefetch_factor where none is given."""

MODEL_ERROR, BUSY_ERROR, SHARED_ERROR, START_ERROR = 0.06, 0.14, 0.5, 0.5
"""Of the speedup: where batches wait for I/O, what busy cores add to it, what these add once other programs use them
too, and of the part that starting and ending workers has in it. Set by the fit half of benchmarks/prediction.py."""

SLOWER_ALONE = 1.0
"""Milliseconds of sending a batch, which one worker may take longer than training, beside having only one thread."""

SLACK = 0.25
"""CPUs that may be wanted beyond those there are before training gets visibly slower."""

FEWER_THREADS = 0.25
"""A worker has one thread: where the process has several, a batch that much shorter in a worker is so for that."""

CORES = "machine.cpus_per_rank"
NEEDED = "loader.workers_needed"
COSTS = (
    "loader.serial_ms",
    "loader.one_worker_ms",
    "loader.handover_ms",
    "loader.start_ms_per_worker",
    "loader.end_ms_per_worker",
    "loader.batch_cpu_share",
    CORES,
)


def workers(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """Step time now / with `workers` of them (loader.workers_needed unless told) and `prefetch` each (as now).

    Costs come from the loader alone with 0 and 1 workers, from the window (training, with no workers) or the
    replay (with some), and go through the model of `pipeline`. The start of an epoch's workers counts, once a run
    with `persistent` = "true". The interval is the noise of what was measured, the error of the model, and how far it
    is off today's step. Where the loader was not tried alone it is a bound. Workers may lose: then it is below 1.
    """
    count = number(evidence, subject, NEEDED) if "workers" not in arguments else float(arguments["workers"])
    costs = pipeline(evidence, subject, arguments.get("persistent") == "true")
    now = number(evidence, subject, "loader.num_workers")
    if costs is None or count is None or now is None:
        return _at_most(evidence, subject, count)
    each = number(evidence, subject, "loader.prefetch_factor") or PREFETCH
    before = batch_ms(costs, round(now), round(each))
    after = batch_ms(costs, round(count), round(float(arguments.get("prefetch", each))))
    speedup = min(before / after, _most(evidence, subject, now))
    noise = number(evidence, subject, "step.noise_share") or 0.0
    starting = max(epoch_ms(costs, round(now)) / before, epoch_ms(costs, round(count)) / after)
    error = math.hypot(model_error(evidence, costs, after, starting), unexplained(evidence, subject, before))
    doubt = step_error(evidence, error)
    # Training alone is what no number of workers beats.
    most = max(speedup, before / costs.warm_ms * (1 + noise))
    interval = speedup * (1 - doubt), min(speedup * (1 + doubt), most)
    return gain(evidence, subject, speedup, interval, "modelled")


def _most(evidence: Evidence, subject: str, workers: float) -> float:
    """No more than what batches cost can go: the wait, and what preparing them slows training down by.

    With workers already the wait is not all that more of them would change.
    """
    shares = [number(evidence, subject, name) for name in ("loader.wait_share", "loader.input_share")]
    cost = max((share for share in shares if share is not None), default=1.0)
    return speedup_without(cost) if workers == 0 else math.inf


def _at_most(evidence: Evidence, subject: str, count: float | None) -> Gain | None:
    """What batches from memory bring, and no more than the pace of `count` workers that all have a core each."""
    ceiling = measured_ceiling({}, evidence, subject) or _without_wait(evidence, subject)
    if ceiling is None:
        return None
    names = ("step.mean_ms", "loader.batch_ms", "loader.batches_per_step")
    step, batch, per_step = (number(evidence, subject, name) for name in names)
    pace = step * count / (batch * per_step) if step and count and batch and per_step else math.inf
    most = min(ceiling.speedup, max(1.0, pace))
    return gain(evidence, subject, most, (min(1.0, most), most), "bound")


def _without_wait(evidence: Evidence, subject: str) -> Gain | None:
    """All that workers can save where the training process prepares its batches, or a trace tells no more: the wait."""
    wait = number(evidence, subject, "loader.wait_share")
    is_known = number(evidence, subject, "loader.num_workers") == 0 or evidence.lookup(RUN, "run.is_traced") is True
    if wait is None or not 0 < wait < 1 or not is_known:
        return None
    most = speedup_without(wait)
    return gain(evidence, subject, most, (1.0, most), "bound")


def unexplained(evidence: Evidence, subject: str, modelled_ms: float) -> float:
    """How far the model is off where it is known: a batch of `modelled_ms` beside that of the window, as a log ratio.

    With workers, or where other programs come and go, what was tried alone does not add up to the window.
    """
    mean, batches = (number(evidence, subject, name) for name in ("step.mean_ms", "loader.batches_per_step"))
    return abs(math.log(modelled_ms * batches / mean)) if mean and batches and modelled_ms > 0 else 0.0


def pipeline(evidence: Evidence, subject: str, persistent: bool) -> Pipeline | None:
    """The costs of one batch; None when the loader was not tried alone or the cores are unknown."""
    known = [value for name in COSTS if (value := number(evidence, subject, name)) is not None]
    trained = _trained_ms(evidence, subject)
    if len(known) < len(COSTS) or trained is None:
        return None
    serial, one, handover, start, end, cpu_share, cores = known
    has_threads = (number(evidence, subject, "run.num_threads") or 1.0) > 1
    if one < serial and not (has_threads and one < serial * (1 - FEWER_THREADS)):
        # Nothing is faster in a worker, but for its one thread: what was measured twice is one time.
        serial = one = (serial + one) / 2
    left = max(1.0, cores - other_cpu_use(evidence))
    in_worker = min(one, serial * max(1.0, cores) + SLOWER_ALONE)
    cpu = _worker_cpu_ms(_cpu_ms(evidence, subject, serial, cpu_share, left), serial, in_worker)
    waited = None if number(evidence, subject, "loader.num_workers") else number(evidence, subject, "loader.wait_ms")
    # Nothing is slower alone than between two steps: where it was, the machine was slower while the loader was tried.
    slower = max(1.0, serial / waited) if waited else 1.0
    return Pipeline(
        serial_ms=waited or serial,
        io_ms=(in_worker - cpu) / slower,
        cpu_ms=cpu / slower,
        handover_ms=handover / slower,
        compute_ms=trained[0],
        warm_ms=trained[1],
        start_ms=start,
        end_ms=end,
        cores=left,
        threads=_threads(evidence, subject, left),
        batches=_batches(evidence, subject, persistent),
        cv=number(evidence, subject, "loader.batch_cv") or 0.0,
    )


def _worker_cpu_ms(cpu_ms: float, serial_ms: float, in_worker_ms: float) -> float:
    """What of a batch needs a core in a worker, of `cpu_ms` in the training process.

    What a worker takes longer is computing. Where it takes less time, its computing is shorter in proportion: what went
    away may be waiting as well, and no more than all of the computing can go.
    """
    if in_worker_ms >= serial_ms:
        return min(in_worker_ms, cpu_ms + in_worker_ms - serial_ms)
    return min(in_worker_ms, cpu_ms * in_worker_ms / serial_ms)


def _cpu_ms(evidence: Evidence, subject: str, serial_ms: float, cpu_share: float, left: float) -> float:
    """What of a batch needs a core: its own CPU time, longer by the wait for a core that other programs use.

    Such a wait looks like I/O. Who asks for a core's fair share or more waits for all of the rest, who asks for
    less for less of it (by the square: who sleeps is served first). Two workers alone bound it: what waits for I/O
    overlaps, so that the rest is no more than their pace on the cores that are `left`.
    """
    cores = number(evidence, subject, CORES) or 1.0
    fair = min(1.0, cores / (1 + other_cpu_use(evidence)))
    own, asked = serial_ms * cpu_share, min(1.0, (cpu_share / fair) ** 2)
    stretched = own * (1 + (1 / fair - 1) * asked)
    pace = number(evidence, subject, "loader.two_workers_ms")
    return stretched if pace is None else max(own, min(stretched, pace * left))


def other_cpu_use(evidence: Evidence, fact: str = "machine.other_cpus") -> float:
    """CPUs that other programs take from this run: first they take those that it may not use anyway.

    As seen on the CPUs of its affinity mask while what `fact` tells of was tried, by default the loader; else by the
    host's load before the run.
    """
    seen, spare = number(evidence, RUN, fact), _spare(evidence)
    if seen is None:
        return max(0.0, (number(evidence, RUN, "machine.load") or 0.0) - spare)
    return seen if evidence.lookup(RUN, "machine.cpu_limited_by") == "affinity" else max(0.0, seen - spare)


def _spare(evidence: Evidence) -> float:
    """CPUs of the host beyond those that this run may use; 0 when unknown."""
    host, quota = number(evidence, RUN, "machine.host_cpus"), number(evidence, RUN, "machine.cpu_quota")
    return 0.0 if host is None or quota is None else max(0.0, host - quota)


def _trained_ms(evidence: Evidence, subject: str) -> tuple[float, float] | None:
    """What training takes per batch: one that was waited for (the step less the wait), and one that was there (replay).

    Workers that compute take cores from training in the window, where there are not enough for all: then the replay
    stands for both. Without a replay it is the window; so it is where training without workers is slowed down by more
    than the wait: threads of the batches' arithmetic would spin on in a worker too.
    """
    names = ("step.mean_ms", "loader.batches_per_step", "loader.wait_share")
    known = [value for name in names if (value := number(evidence, subject, name)) is not None]
    if len(known) < len(names) or not known[0] or not known[1] or known[2] >= 1:
        return None
    mean, per_step, wait = known
    seen, replayed = mean * (1 - wait), replayed_ms(evidence, subject)
    disturbed = (number(evidence, subject, "loader.input_share") or 0.0) > wait
    is_disturbed = disturbed and number(evidence, subject, "loader.num_workers") == 0
    warm = seen if replayed is None or is_disturbed else min(seen, replayed)
    return (warm if _is_crowded(evidence, subject) else seen) / per_step, warm / per_step


def _is_crowded(evidence: Evidence, subject: str) -> bool:
    """Whether workers, training and other programs together had not cores enough in the window."""
    names = ("loader.num_workers", "loader.batch_cpu_share", CORES)
    count, share, cores = (number(evidence, subject, name) or 0.0 for name in names)
    wanted = count * share + _threads(evidence, subject, cores) + other_cpu_use(evidence)
    return count > 0 and wanted > cores + SLACK


def _threads(evidence: Evidence, subject: str, cores: float) -> float:
    """Cores that training uses: one where a device computes."""
    count = number(evidence, subject, "run.num_threads") or 1.0
    return min(count, cores) if evidence.lookup(subject, "device.type") == "cpu" else 1.0


def _batches(evidence: Evidence, subject: str, persistent: bool) -> int | None:
    """Batches between two starts of the workers."""
    epoch = number(evidence, subject, "loader.num_batches")
    lives_on = persistent or evidence.lookup(subject, "loader.persistent_workers") is True
    epochs = number(evidence, RUN, "run.num_planned_epochs") if lives_on else 1.0
    return None if epoch is None else max(1, math.floor(epoch * (epochs or 1.0)))


def model_error(evidence: Evidence, costs: Pipeline, after_ms: float, starting: float) -> float:
    """Of the speedup: cores that are busy, and shared with other programs, are known worse.

    `after_ms` is from batch to batch, `starting` the share of it that starting and ending workers takes.
    """
    busy = min(1.0, (costs.compute_ms + costs.handover_ms + costs.cpu_ms) / after_ms)
    shared = min(1.0, other_cpu_use(evidence) / (number(evidence, RUN, CORES) or 1.0))
    return math.hypot(MODEL_ERROR, busy * (BUSY_ERROR + shared * SHARED_ERROR), START_ERROR * starting)
