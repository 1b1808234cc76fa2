"""What the loader did when nothing else ran: the costs of which a pipeline with any number of workers is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean, median, pstdev
from typing import Any

from autotune.derive.loader import loader_test_ms
from autotune.derive.loaders import LoaderSubject
from autotune.derive.preparation_time import steady_rows
from autotune.derive.recording_view import MS, RecordingView
from autotune.derive.summary_statistics import mean
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import WhatIf

LEAST_ROWS = 8
PACES = {"serial_ms": 0, "one_worker_ms": 1, "two_workers_ms": 2}
"""Fact -> number of workers."""


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `loader.*` of the what-ifs with 0, 1, 2 ... workers, for each loader that was tried."""
    for loader in view.loaders:
        tried = _tried(view, loader)
        yield from _other_cpus(tried) if loader.is_train else ()
        alone = loader_test_ms(view, loader)
        values = {name: alone.get(count) for name, count in PACES.items()}
        values |= {**_of_workers(tried), "batch_cv": _batch_cv(view, loader)}
        for name, value in values.items():
            if tried and value is not None:
                yield Fact(f"loader.{name}", loader.subject, value)


def _other_cpus(tried: Mapping[int, WhatIf]) -> Iterator[Fact]:
    """While the loader was tried, which keeps our own processes busy in different ways."""
    cpus = mean(w.result["other_cpus"] for w in tried.values() if w.result.get("other_cpus") is not None)
    if cpus is not None:
        yield Fact("machine.other_cpus", RUN, cpus)


def _tried(view: RecordingView, loader: LoaderSubject) -> dict[int, WhatIf]:
    """Number of workers -> what-if; only those that gave batches."""
    return {
        int(what_if.arguments["num_workers"]): what_if
        for what_if in view.recording.what_ifs
        if what_if.name == "loader_alone"
        and what_if.outcome == "completed"
        and what_if.arguments.get("loader") in loader.ids
        and what_if.result["batch_ns"]
    }


def _of_workers(tried: dict[int, WhatIf]) -> dict[str, float | None]:
    """Hand-over and start, over all counts above 0: a start is iterator creation and first batch, less a batch."""
    several = {count: what_if.result for count, what_if in tried.items() if count}
    if not several:
        return {}
    starts_ns = [row["start_ns"] - count * fmean(row["batch_ns"]) for count, row in several.items()]
    ends_ns = [_end_ns(count, row) for count, row in several.items() if "end_ns" in row]
    return {
        "handover_ms": fmean(map(_handover_ns, several.values())) / MS,
        "start_ms_per_worker": max(0.0, sum(starts_ns)) / MS / sum(several),
        "end_ms_per_worker": max(0.0, sum(ends_ns)) / MS / sum(several) if ends_ns else None,
    }


def _handover_ns(row: Mapping[str, Any]) -> float:
    """Of a batch that was ready; where none was, this process' CPU time for one that was not."""
    ready_ns = row.get("ready_ns")
    return float(median(ready_ns) if ready_ns else row["cpu_ns"] / len(row["batch_ns"]))


def _end_ns(count: int, row: Mapping[str, Any]) -> float:
    """What ending `count` workers took; busy ones end after the batch that they were preparing, the last one after most
    of one."""
    preparing_ns = 0.0 if row.get("was_idle") else count * fmean(row["batch_ns"]) * count / (count + 1)
    return float(row["end_ns"] - preparing_ns)


def _batch_cv(view: RecordingView, loader: LoaderSubject) -> float | None:
    """Standard deviation / mean of the time to prepare a batch; None under eight batches."""
    walls = [row.wall_ns for row in steady_rows(view, loader)]
    return pstdev(walls) / fmean(walls) if len(walls) >= LEAST_ROWS and any(walls) else None
