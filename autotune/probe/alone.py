"""What-ifs that run by themselves: the loader alone, one serialisation, and the arithmetic of replayed steps."""

from __future__ import annotations

import os

from . import clock, others

LOADER_S = 2.0
LEAST_BATCHES, MOST_BATCHES = 32, 256
ENOUGH_S = 0.3
REPLAYS = ("replay", "replay_changed")
PAUSES = ("fetch", "iter", "checkpoint", "evaluation", "logging", "serialise")
"""Events that are no part of a replayed step."""


def step_result(name: str, spans: list) -> dict:
    """A replay's {"step_ns", "update_ns"} or another phase's {"micro_ns"} from (wall, events) of each step.

    Without fetches and interruptions.
    """
    steps, updates, micros = [], [], []
    for wall, events in spans:
        wall -= sum(end - start for kind, start, end, _, _ in events if kind in PAUSES)
        backwards = sum(1 for event in events if event[0] == "backward")
        updating = sum(end - start for kind, start, end, _, _ in events if kind == "optimizer")
        steps.append(wall)
        updates.append(updating)
        if backwards:
            micros.append((wall - updating) // backwards)
    return {"step_ns": steps, "update_ns": updates} if name in REPLAYS else {"micro_ns": micros}


def load(session, row: dict, workers: int) -> tuple:
    """(outcome, result) of taking batches from a copy of the loader with `workers` workers and nothing else to do."""
    recorder, sampler = session.recorder, session.sampler
    recorder.on = False
    sampler.reset()
    before = others.reading()
    recorder.stack.append("fetch")
    try:
        result = _take(_copy(row["object"](), workers))
    except Exception as error:  # the dataset does not bear another loader: say so, go on
        return "failed", {"error": type(error).__name__}
    finally:
        recorder.stack.pop()
        recorder.on = True
    result["other_cpus"] = others.cpus(before)
    if workers == 0:
        result["samples"] = [sample for sample in sampler.rows() if sample["phase"] == "fetch"]
    return "completed", result


def _copy(loader, workers: int):
    from torch.utils.data import DataLoader

    several = {"prefetch_factor": loader.prefetch_factor or 2} if workers else {}
    return DataLoader(
        loader.dataset,
        batch_sampler=loader.batch_sampler,
        collate_fn=loader.collate_fn,
        num_workers=workers,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context if workers else None,
        **several,
    )


def _take(loader) -> dict:
    begin = clock.now()
    iterator = iter(loader)
    next(iterator)
    start_ns = clock.now() - begin
    ends = [clock.now()]
    cpu = clock.thread_cpu()
    while not _is_enough(len(ends) - 1, ends[-1] - begin) and next(iterator, None) is not None:
        ends.append(clock.now())
    cpu_ns = clock.thread_cpu() - cpu
    stop = clock.now()
    del iterator
    return {
        "batch_ns": [after - before for before, after in zip(ends, ends[1:])],
        "start_ns": start_ns,
        "cpu_ns": cpu_ns,
        "end_ns": clock.now() - stop,
    }


def _is_enough(batches: int, elapsed_ns: int) -> bool:
    if elapsed_ns > LOADER_S * 1e9 or batches >= MOST_BATCHES:
        return True
    return batches >= LEAST_BATCHES and elapsed_ns > ENOUGH_S * 1e9


def serialise(session) -> tuple:
    """(outcome, result) of saving the largest model and its optimizer once, beside the Recording."""
    import torch

    path = os.path.join(session.request["run_dir"], f"serialised-{os.getpid()}")
    start = clock.now()
    try:
        torch.save(session.state(), path)
        return "completed", {"ns": clock.now() - start, "bytes": os.path.getsize(path)}
    except Exception as error:  # a state that cannot be pickled, a full disk: unknown, not fatal
        return "failed", {"error": type(error).__name__}
    finally:
        session.recorder.push("serialise", start, clock.now())
        if os.path.exists(path):
            os.remove(path)
