"""Watched runs for tests of what is made of them."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from autotune.model.watched import ChangedPhase, Drift, WatchedProcess, WatchedRow, WatchedRuns, WatchedWindow

DRIFT = Drift(
    what="step_time",
    since_step=310,
    said_at_step=380,
    is_steady=False,
    is_alike=False,
    queued_ms=None,
    first=139.0,
    now=182.0,
    phases=(ChangedPhase("data_wait", 2.1, 44.0),),
    place="train.py:7",
    text="a step takes 1.31 times as long as at step 50: data wait rose from 2.10 ms to 44.0 ms",
)
WINDOW = WatchedWindow(50, 20, "planned", 140.0, {"forward": 138.6, "data_wait": 1.4}, {}, None, 2**31)


def process(**changes):
    """A process that runs, after its first window."""
    one = WatchedProcess(
        schema=1,
        state="running",
        error=None,
        pid=7,
        process_start=1.0,
        host="node-1 pid:[1]",
        script="train.py",
        began_at=1_800_000_000.0,
        rank=0,
        world_size=1,
        seen_at=1_800_003_600.0,
        stepped_at=1_800_003_599.0,
        steps=1240,
        step_ms=182.0,
        first_step_ms=139.0,
        memory_bytes=2**31,
        first_memory_bytes=2**31,
        is_measuring=False,
        windows=(WINDOW,),
        drift=(DRIFT,),
        failure=None,
    )
    return replace(one, **changes)


def row(life="running", **changes):
    """The same as it is four seconds later."""
    return WatchedRow(Path("/home/me/project/.autotune/watch/job-7"), process(**changes), life, 4.0, 5.0)


def runs(*rows):
    """One run with these processes; by default of two ranks, one of which was killed."""
    return WatchedRuns(rows or (row(world_size=2), row("killed", rank=1, world_size=2, failure="KeyError: 'x'")), {}, 3)
