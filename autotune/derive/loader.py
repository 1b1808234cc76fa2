"""One subject per DataLoader of the script: what its batches cost, and how long training waits for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from statistics import fmean, median

from autotune.derive import preparation_samples, preparation_time, training_plan
from autotune.derive.lines import place_name
from autotune.derive.loaders import LoaderSubject
from autotune.derive.recording_view import MS, MeasuredWindow, RecordingView, S
from autotune.derive.replays import quiet_ms, steps_ns
from autotune.derive.summary_statistics import median_interval
from autotune.model.evidence import Fact, Value
from autotune.model.recording import WhatIf

IO_BOUND_SHARE = 0.3
"""CPU share below which a batch mostly waits: such workers share a core without hurting anyone."""

MOST_WORKERS = 16

PREPARED = ("tokenize_share", "decode_share", "constant_share", "collate_share")
"""Facts about what fills the preparation of a batch: their place is the line in which most of it is."""

DISTURBED = 0.25
"""Of the time that training computes: what it is shorter by without preparing any batch is more than noise."""

FEW_EPOCHS = 3
"""A loader that lives through more epochs than this was made anew for another reason, e.g. for a second stage."""

LEAST_NAMED = 0.3
"""Of preparing a batch: a line with less is not the one to name."""

WORTH_LAST_CORE = 1.2
"""A worker for the last core, which training uses too, has to bring batches this many times as fast."""


def facts(view: RecordingView, cpus_per_rank: float | None) -> Iterator[Fact]:
    """Facts `loader.*` but those of its lengths. `cpus_per_rank`: CPUs that this process may use, None if unknown."""
    for loader in view.loaders:
        values = {**_described(view, loader), **_waits(view, loader), **_costs(view, loader)}
        if cpus_per_rank is not None and (loader.num_workers or 0) > cpus_per_rank:
            values |= _alone_cpu_share(view, loader)
        if loader.feeds_training:
            values |= _of_training(view, loader, values, cpus_per_rank)
        if loader.is_train:
            values |= _train_only(view) | preparation_samples.shares(view, loader, values.get("collate_share"))
        hottest = preparation_samples.hottest_place(view, loader) if loader.is_train else None
        for name, value in values.items():
            if value is not None:
                places = (hottest,) if hottest is not None and name in PREPARED else ()
                yield Fact(f"loader.{name}", loader.subject, value, places)
        if loader.is_train:
            yield from _of_hot_line(view, loader, values.get("input_share"))


def _of_hot_line(view: RecordingView, loader: LoaderSubject, input_share: Value | None) -> Iterator[Fact]:
    hot = preparation_samples.hot_line(view, loader)
    if hot is None:
        return
    place, function, share = hot
    values: dict[str, Value] = {"hot_line_share": share}
    if share >= LEAST_NAMED:
        values["hot_line"] = place_name(place.file, place.line, function)
    if isinstance(input_share, float):
        values["hot_line_step_share"] = share * input_share
    for name, value in values.items():
        yield Fact(f"loader.{name}", loader.subject, value, (place,))


def _described(view: RecordingView, loader: LoaderSubject) -> dict[str, Value | None]:
    iters = [n for n in view.nodes if n.event.kind == "iter" and n.event.ref in loader.iterated and n.outermost]
    return {
        "is_train": loader.feeds_training,
        "num_batches": _batches(view, loader),
        "num_epochs_seen": len(iters),
        "is_remade": len(loader.iterated) > 1 and len(iters) <= FEW_EPOCHS * len(loader.iterated),
        "is_map_style": loader.own["dataset"]["map_style"],
        "has_own_collate": loader.own.get("has_own_collate"),
        "sample_format": loader.own["dataset"].get("gives", "other"),
    }


def _batches(view: RecordingView, loader: LoaderSubject) -> int | None:
    if loader.is_train:
        return training_plan.batches_per_epoch(view)
    batches: int | None = loader.timed["num_batches"] or loader.own["num_batches"]
    return batches


def _waits(view: RecordingView, loader: LoaderSubject) -> dict[str, Value | None]:
    """From the events of the window: own time of the waits, and of starting an epoch's iterator."""
    if view.window is None:
        return {}
    own = {
        kind: [(node, own) for node, own in view.in_window(kind) if node.event.ref in loader.iterated]
        for kind in ("fetch", "iter")
    }
    came = [own_ns for node, own_ns in own["fetch"] if node.event.flag]
    if not came:
        return {}
    waited = sum(own_ns for rows in own.values() for _, own_ns in rows)
    num_batches = len(view.train_fetches()) if loader.is_train else len(came)
    wait_share = waited / view.window.wall_ns
    return {
        "wait_ms": sum(came) / len(came) / MS,
        "wait_share": wait_share,
        "input_share": wait_share + (_disturbed_share(view, loader, view.window) if loader.is_train else 0.0),
        "batches_per_step": num_batches / view.window.steps,
    }


def _disturbed_share(view: RecordingView, loader: LoaderSubject, window: MeasuredWindow) -> float:
    """Of the step, what training computes longer on a CPU than on batches that are there: preparing them disturbs it.

    Threads of the batches' arithmetic spin on for a while, and workers take cores. 0 where it is no more than noise,
    and never more than preparing takes.
    """
    calm, kept = quiet_ms(view, window), median_interval(steps_ns(view))
    interval, preparing_ms = median_interval(calm), preparation_time.wall_ms(view, loader)
    if kept is None or interval is None or preparing_ms is None or view.recording.device_type != "cpu":
        return 0.0
    longer = median(calm) - kept[1] / MS
    is_more = longer >= DISTURBED * median(calm) and interval[0] > kept[1] / MS
    return min(longer, preparing_ms) / window.mean_ms if is_more else 0.0


def _costs(view: RecordingView, loader: LoaderSubject) -> dict[str, Value | None]:
    rows = preparation_time.steady_rows(view, loader)
    wall_ns = sum(row.wall_ns for row in rows)
    sizes = [batch.num_bytes for batch in view.recording.batches if batch.loader in loader.ids]
    values: dict[str, Value | None] = {"worker_start_s": worker_start_s(view, loader)}
    if sizes:
        values["batch_bytes"] = round(sum(sizes) / len(sizes))
    if wall_ns:
        values["batch_ms"] = wall_ns / len(rows) / MS
        # The queue is read for a part of the batches. Where the system does not tell it, all of a wait is the batch's.
        timed = [row for row in rows if row.queued_ns is not None] or rows
        cpu_ns, timed_ns = sum(row.cpu_ns for row in timed), sum(row.wall_ns for row in timed)
        values |= _cpu_shares(cpu_ns, timed_ns, sum(row.queued_ns or 0 for row in timed))
        values["collate_share"] = min(1.0, sum(row.collate_wall_ns for row in rows) / wall_ns)
    return values


def worker_start_s(view: RecordingView, loader: LoaderSubject) -> float | None:
    """Median over the epochs of: iterator creation and first batch, less a steady batch. None without workers."""
    if not loader.num_workers:
        return None
    marks = [n.event for n in view.nodes if n.event.ref in loader.iterated and n.event.kind in ("iter", "fetch")]
    waits = [mark.end_ns - mark.start_ns for mark in marks if mark.kind == "fetch" and mark.flag]
    starts = [
        first.end_ns - mark.start_ns
        for mark, first in itertools.pairwise(marks)
        if mark.kind == "iter" and first.kind == "fetch"
    ]
    return max(0.0, median(starts) - median(waits)) / S if starts and waits else None


def _of_training(
    view: RecordingView, loader: LoaderSubject, values: dict[str, Value | None], cpus_per_rank: float | None
) -> dict[str, Value | None]:
    known = {name: value for name, value in values.items() if isinstance(value, int | float)}
    compute, alone = compute_ms(view, known), loader_test_ms(view, loader)
    trained = _core_ms(view, compute, cpus_per_rank)
    most = most_workers(known.get("cpu_demand_share"), cpus_per_rank, known.get("batch_ms"), trained)
    # Where nothing is waited for, none but 0 is tried: for what fills the preparation.
    best = min(alone, key=lambda count: alone[count]) if len(alone) > 1 else None
    needed = workers_needed(known.get("batch_ms"), compute, most, alone)
    return {
        "workers_needed": needed,
        "alone_batch_ms": None if needed is None else alone.get(needed),
        "best_workers": best,
        "epoch_start_share": _epoch_start_share(view, known),
    }


def loader_test_ms(view: RecordingView, loader: LoaderSubject) -> dict[int, float]:
    """Number of workers -> milliseconds per batch of the loader when nothing else ran, where it was long enough."""
    tried = {
        int(what_if.arguments["num_workers"]): _steady_ms(what_if)
        for what_if in view.recording.what_ifs
        if what_if.name == "loader_alone"
        and what_if.outcome == "completed"
        and what_if.arguments.get("loader") in loader.ids
    }
    return {count: ms for count, ms in tried.items() if ms is not None}


def _alone_cpu_share(view: RecordingView, loader: LoaderSubject) -> dict[str, Value | None]:
    """Of the loader alone without workers, where it was tried: workers that wait for a CPU seem to wait for storage."""
    for what_if in view.recording.what_ifs:
        is_serial = what_if.name == "loader_alone" and what_if.arguments["num_workers"] == 0
        if is_serial and what_if.outcome == "completed" and what_if.arguments.get("loader") in loader.ids:
            wall_ns = sum(what_if.result["batch_ns"])
            queued_ns = what_if.result.get("queued_ns") or 0
            return _cpu_shares(what_if.result["cpu_ns"], wall_ns, queued_ns) if wall_ns else {}
    return {}


def _cpu_shares(cpu_ns: float, wall_ns: float, queued_ns: float) -> dict[str, Value | None]:
    """CPU time of the wall time, and of the time outside the queue for a CPU: beside other work, that queue is no I/O.

    A system that does not tell the queue gives 0: both are the same there.
    """
    demand = min(1.0, cpu_ns / max(wall_ns - queued_ns, cpu_ns)) if cpu_ns else 0.0
    return {"batch_cpu_share": min(1.0, cpu_ns / wall_ns), "cpu_demand_share": demand}


def _steady_ms(what_if: WhatIf) -> float | None:
    """Mean of whole rounds in which each worker gives a batch; those beside the first batch of all were ready."""
    workers = max(1, int(what_if.arguments["num_workers"]))
    later = what_if.result["batch_ns"][workers - 1 :]
    whole = later[: len(later) // workers * workers]
    return fmean(whole) / MS if whole else None


def _train_only(view: RecordingView) -> dict[str, Value | None]:
    io = view.recording.io
    return {"read_bytes_per_step": round(io["read_bytes"] / view.window.steps) if io and view.window else None}


def compute_ms(view: RecordingView, known: dict[str, int | float]) -> float | None:
    """Milliseconds that training takes per batch when no batch is waited for; saves and evaluations left out.

    On a CPU of the replay where that is less: no worker took a core from it.
    """
    batches = known.get("batches_per_step")
    if view.window is None or not batches:
        return None
    seen = view.window.without_ms("data_wait", "checkpoint", "evaluation")
    is_cpu = view.recording.device_type == "cpu"
    if is_cpu and steps_ns(view):
        # A replayed step holds no logging, which comes on top of any.
        logging_ms = view.window.mean_ms - view.window.without_ms("logging")
        seen = min(seen, median(steps_ns(view)) / MS + logging_ms)
    return seen / batches


def _core_ms(view: RecordingView, compute: float | None, cpus: float | None) -> float | None:
    """CPU time of the training process per batch that it computes on for `compute` ms."""
    device, threads = view.recording.device, view.recording.torch_state.get("num_threads")
    if compute is None or cpus is None or threads is None or device is None:
        return None
    return compute * (min(threads, cpus) if device["type"] == "cpu" else 1)


def most_workers(
    cpu_share: float | None, cpus: float | None, batch_ms: float | None = None, training_core_ms: float | None = None
) -> int:
    """Workers that there is room for, at most 16.

    Workers that compute need a core each, and the training process needs one too: on a quota of `cpus` CPUs
    there are floor(cpus) - 1 to give (1 on two cores), but always 1, which overlaps what waiting there is; and the
    last one too where training asks for so little of it (`training_core_ms` beside the CPU time of a batch) that
    batches come much faster. Workers that mostly wait for I/O are not bounded by CPUs.
    """
    if cpus is None or cpu_share is None or cpu_share < IO_BOUND_SHARE:
        return MOST_WORKERS
    most = max(1, math.floor(cpus) - 1)
    if batch_ms is not None and training_core_ms is not None and most < math.floor(cpus):
        kept_busy = cpus * batch_ms / (batch_ms * cpu_share + training_core_ms)
        most += kept_busy >= WORTH_LAST_CORE * most
    return min(MOST_WORKERS, most)


def workers_needed(batch_ms: float | None, compute: float | None, most: int, alone: Mapping[int, float]) -> int | None:
    """Workers at which batches keep up with `compute` ms per batch: at least 1, at most `most`.

    `alone` holds what was tried: the smallest count that keeps up, or else the best. Where the largest count
    tried is the best there may be better ones, and where nothing was tried it is arithmetic:
    ceil(batch / compute) + 1.
    """
    if compute is None or compute <= 0:
        return None
    tried = {count: ms for count, ms in alone.items() if 1 <= count <= most}
    enough = [count for count, ms in tried.items() if ms < compute]
    if enough:
        return min(enough)
    wanted = None if batch_ms is None else min(most, max(1, math.ceil(batch_ms / compute) + 1))
    if not tried:
        return wanted
    best = min(tried, key=lambda count: tried[count])
    return best if wanted is None or best < max(tried) else max(best, wanted)


def _epoch_start_share(view: RecordingView, known: dict[str, int | float]) -> float | None:
    start, batches = known.get("worker_start_s"), known.get("num_batches")
    per_step = known.get("batches_per_step")
    if view.window is None or start is None or not batches or not per_step:
        return None
    epoch_s = batches / per_step * view.window.mean_ms / 1e3
    return start / (start + epoch_s)
