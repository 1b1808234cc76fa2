"""The step time under several changed settings at once: the timeline is changed by one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from autotune.model.evidence import Evidence, Value
from autotune.model.forecast import Forecast
from autotune.predict.gain_inputs import TRAIN, number
from autotune.predict.local_ratio import measured_range
from autotune.predict.micro_batch import LARGER_ERROR, PADDING_ERROR, larger_ratio, padding_ratio
from autotune.predict.pipeline import Pipeline, epoch_ms
from autotune.predict.timeline import Timeline, timeline
from autotune.predict.workers import model_error, unexplained

PERSISTENT = "loader.persistent_workers"
OF_LOADER = frozenset((PERSISTENT, "loader.num_workers", "loader.prefetch_factor"))
"""Where a loader has no workers these shorten the wait for its batches, and nothing else."""

FUSED_RATIO = (3.0, 30.0)
"""An update by one kernel on a CPU, of one by lists of operations (benchmarks/prediction.py)."""

THREADS_ERROR = 0.4
"""Of the step: a second thread is worth what the host's other guests leave of a second core."""

Candidate = Mapping[str, Value]
Change = Callable[[Timeline, Value, Evidence], Timeline | None]
"""The timeline with a setting at the value; None where what it would do is not known."""


def step_ms(candidate: Candidate, evidence: Evidence) -> Forecast | None:
    """The step under the settings of `candidate` together; None where today's step is not known.

    Settings that have their value already change nothing. The forecast keeps to the measured step: it is that one,
    changed as the model says.
    """
    lasting = bool(candidate.get(PERSISTENT, evidence.lookup(TRAIN, PERSISTENT)))
    now = timeline(evidence, bool(evidence.lookup(TRAIN, PERSISTENT)))
    then = timeline(evidence, lasting)
    mean = number(evidence, TRAIN, "step.mean_ms")
    if now is None or then is None or mean is None or not now.step_ms:
        return None
    unmodelled: list[str] = []
    changes = _changed(candidate, evidence)
    for name, value in changes.items():
        changed = CHANGES[name](then, value, evidence) if name in CHANGES else None
        if changed is None:
            unmodelled.append(name)
        then = changed or then
    if then.workers != now.workers:
        then = then.doubting(unexplained(evidence, TRAIN, now.step_ms / now.batches))
    ms = mean * then.step_ms / now.step_ms
    # What is not known bounds nothing: neither a wait that was not seen nor workers that nobody counted are none.
    waits = number(evidence, TRAIN, "step.data_wait_share")
    has_none = number(evidence, TRAIN, "loader.num_workers") == 0
    least_ms = mean * (1 - waits) if waits is not None and has_none and OF_LOADER.issuperset(changes) else None
    return Forecast(ms, ms / (1 + then.doubt), ms * (1 + then.doubt), "modelled", tuple(unmodelled), least_ms)


def _changed(candidate: Candidate, evidence: Evidence) -> Candidate:
    """What is to be different, in the order in which it is applied; an optimizer's setting is the first one's."""
    order = sorted(candidate, key=lambda name: (*CHANGES, name).index(name))
    return {name: candidate[name] for name in order if candidate[name] != _today(evidence, name)}


def _today(evidence: Evidence, name: str) -> Value | None:
    owner = "optimizer#0" if name.startswith("optimizer.") else TRAIN
    return evidence.lookup(owner, name)


def _batch_size(now: Timeline, value: Value, evidence: Evidence) -> Timeline | None:
    """Micro-batches `value` samples large: their training by the fitted line, their loading in proportion."""
    size = number(evidence, TRAIN, "loader.batch_size")
    factor = float(value) / size if size and isinstance(value, int | float) else 0.0
    grown = larger_ratio(evidence, factor) if factor > 0 else None
    if grown is None:
        return None
    loader = now.loader
    if loader is not None:
        per_batch = {name: getattr(loader, name) * factor for name in ("serial_ms", "io_ms", "cpu_ms")}
        batches = loader.batches and max(1, round(loader.batches / factor))
        # Samples that take differently long even out in larger batches.
        loader = replace(loader, **per_batch, batches=batches, cv=loader.cv / math.sqrt(factor))
    changed = replace(now, micro_ms=now.micro_ms * grown, wait_ms=now.wait_ms * factor, loader=loader)
    return changed.doubting(LARGER_ERROR)


def _accumulation(now: Timeline, value: Value, evidence: Evidence) -> Timeline | None:
    steps = number(evidence, TRAIN, "train.accumulation_steps")
    if not steps or not isinstance(value, int | float):
        return None
    return replace(now, batches=now.batches * value / steps)


def _grouped(now: Timeline, value: Value, evidence: Evidence) -> Timeline | None:
    """Batches of like length; nothing says what batches that are grouped would be without it."""
    ratio = padding_ratio(evidence, TRAIN, "loader.pad_share", "loader.grouped_pad_share") if value else None
    if ratio is None:
        return None
    return replace(now, micro_ms=now.micro_ms * ratio).doubting(PADDING_ERROR)


def _fused(now: Timeline, value: Value, evidence: Evidence) -> Timeline | None:
    """By the ratio of the replays, or else the range of a CPU."""
    has_one = evidence.lookup("optimizer#0", "optimizer.has_fused") is True
    if not (value and has_one and evidence.lookup(TRAIN, "device.type") == "cpu"):
        return None
    low, high = measured_range(evidence, TRAIN, "replay.fused_ratio", "replay.fused_spread") or FUSED_RATIO
    fast, slow = now.update_ms / high, now.update_ms / low
    changed = replace(now, update_ms=math.sqrt(fast * slow))
    return changed.doubting((slow - fast) / 2 / changed.step_ms)


def _workers(now: Timeline, value: Value, evidence: Evidence) -> Timeline | None:
    if now.loader is None or not isinstance(value, int):
        return None
    changed = replace(now, workers=value)
    after = changed.step_ms / now.batches
    starting = max(epoch_ms(now.loader, now.workers), epoch_ms(now.loader, value)) / after
    return changed.doubting(model_error(evidence, now.loader, after, min(1.0, starting)))


def _prefetch(now: Timeline, value: Value, evidence: Evidence) -> Timeline | None:
    if now.loader is None or not isinstance(value, int):
        return None
    return replace(now, prefetch=value)


def _threads(now: Timeline, value: Value, evidence: Evidence) -> Timeline | None:
    """What is computed takes the time that a replay with as many threads took, of one as it is."""
    replayed = number(evidence, TRAIN, "replay.step_ms")
    most = number(evidence, TRAIN, "replay.most_threads")
    name = "replay.one_thread_ms" if value == 1 else "replay.most_threads_ms" if value == most else None
    then = number(evidence, TRAIN, name) if name else None
    if not then or not replayed or not isinstance(value, int):
        return None
    ratio = then / replayed
    loader = now.loader and _prepared(now.loader, value, evidence)
    changed = replace(now, micro_ms=now.micro_ms * ratio, update_ms=now.update_ms * ratio, loader=loader)
    return changed.doubting(THREADS_ERROR)


def _prepared(loader: Pipeline, threads: int, evidence: Evidence) -> Pipeline:
    """The loader of a process with that many threads. With one it prepares batches as a worker does, which has one."""
    serial, one = (number(evidence, TRAIN, f"loader.{name}") for name in ("serial_ms", "one_worker_ms"))
    faster = min(1.0, one / serial) if threads == 1 and one and serial else 1.0
    cores = min(float(threads), loader.cores)
    return replace(loader, threads=cores, serial_ms=loader.serial_ms * faster)


def _persistent(now: Timeline, value: Value, evidence: Evidence) -> Timeline | None:
    """The timeline was made for it."""
    return now if now.loader is not None else None


CHANGES: Mapping[str, Change] = {
    "loader.batch_size": _batch_size,
    "train.accumulation_steps": _accumulation,
    "data.group_by_length": _grouped,
    "train.num_threads": _threads,
    "optimizer.fused": _fused,
    "loader.num_workers": _workers,
    "loader.prefetch_factor": _prefetch,
    PERSISTENT: _persistent,
}
"""Settings with a model, what the loader is to keep pace with first."""
