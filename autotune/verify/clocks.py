"""Which clock a verification rests on: the time that passes, or CPU time, which other work hardly touches.

The CPU time of the training thread is the step where that thread does all of the work and waits for nothing but a CPU.
What it does not know of are other threads, which share the work or spin while they wait, processes that prepare
batches, disks, devices and sleep: each of them leaves a trace, and with any of them it is the time that passes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from autotune.model.recording import Fetch, Recording, Window
from autotune.model.verified import AFTER, BEFORE, Clock, Start, Verdict
from autotune.verify.contention import OTHERS_SHARE, disturbances

OTHER_THREADS = 0.05
"""Of the training thread's CPU time, what all other threads of its process may use: one looks at stacks, for us."""

ASLEEP = 0.03
"""Of a window, the time in which the training thread neither ran nor waited for a CPU."""

MOST_DISTURBED = 0.25
"""Share of the starts that may be disturbed before it matters how many CPUs either side wants."""

MORE_CPUS = 1.1
"""A side that kept so many times the CPUs of the other one busy wants more of them."""


def cpu_ms(recording: Recording, own_ms: Sequence[float]) -> tuple[float, ...]:
    """The CPU time of each measured step; empty where it is not all that the step consists of, or that is not known.

    `own_ms` are the times of the steps, without those in which the process was stopped.
    """
    window = recording.window
    if window is None or not window.step_cpu_ns or (recording.device or {}).get("type") != "cpu":
        return ()
    if _in_workers(recording, window) or not _is_alone(window, math.fsum(own_ms) * 1e6):
        return ()
    marks = window.step_cpu_ns[window.warmup_steps - 1 : window.warmup_steps + window.steps]
    return tuple((end - begin) / 1e6 for begin, end in pairwise(marks))


def _is_alone(window: Window, own_ns: float) -> bool:
    if window.cpu_ns is None or window.process_cpu_ns is None or window.queued_ns is None:
        return False
    others_ns = window.process_cpu_ns - window.cpu_ns
    asleep_ns = own_ns - window.cpu_ns - window.queued_ns
    return others_ns <= OTHER_THREADS * window.cpu_ns and asleep_ns <= ASLEEP * own_ns


def cpus(recordings: Sequence[Recording], own_ms: Sequence[float]) -> float | None:
    """How many CPUs all processes and their workers kept busy in the window; None where that is not known."""
    used_ns = [_used_ns(one) for one in recordings]
    known = [used for used in used_ns if used is not None]
    own_ns = math.fsum(own_ms) * 1e6
    return sum(known) / own_ns if len(known) == len(used_ns) and own_ns else None


def _used_ns(recording: Recording) -> int | None:
    window = recording.window
    if window is None or window.process_cpu_ns is None:
        return None
    return window.process_cpu_ns + sum(one.cpu_ns for one in _in_workers(recording, window))


def _in_workers(recording: Recording, window: Window) -> list[Fetch]:
    span = range(window.start_ns, window.end_ns + 1)
    return [one for one in recording.fetches if not one.in_main and one.start_ns in span]


def clock(starts: Sequence[Start]) -> Clock:
    """CPU time where it is the step in all of the starts, those of the rehearsals included."""
    return Clock.CPU if all(start.cpu_ms for start in starts) else Clock.WALL


def on(chosen: Clock, start: Start) -> tuple[float, ...]:
    """The times of the measured steps."""
    return start.cpu_ms if chosen is Clock.CPU else start.times_ms


def mean_ms(chosen: Clock, start: Start) -> float:
    """The mean step."""
    return statistics.fmean(start.cpu_ms) if chosen is Clock.CPU else start.step_ms


def others(starts: Sequence[Start]) -> float | None:
    """The share of the CPUs that other work had, as the median of the starts; None where one of them is not known."""
    known = [start.others_share for start in starts if start.others_share is not None]
    return statistics.median(known) if len(known) == len(starts) and known else None


def doubt(said: Verdict, starts: Sequence[Start]) -> str:
    """Why the time that passed does not bear this verdict on a disturbed machine; "" where it does.

    A side that wants more CPUs than other work leaves is slower here than alone. Faster all the same is faster.
    """
    disturbed = [what for what in disturbances(starts) if what]
    if len(disturbed) <= MOST_DISTURBED * len(starts):
        return ""
    sides = [[start.cpus for start in starts if start.side == side] for side in (BEFORE, AFTER)]
    when = f"{statistics.mode(disturbed)} during {len(disturbed)} of {len(starts)} starts"
    known = [[value for value in side if value is not None] for side in sides]
    if any(len(some) < len(every) for some, every in zip(known, sides, strict=True)):
        return f"{when}, and how many CPUs either side wants is not known"
    old, new = map(statistics.median, known)
    handicapped = {old > MORE_CPUS * new: Verdict.FASTER, new > MORE_CPUS * old: Verdict.SLOWER}.get(True)
    if handicapped is None or said not in (handicapped, Verdict.NO_DIFFERENCE):
        return ""
    return f"{when}, which slows the side down that wants more CPUs ({old:.1f} before, {new:.1f} after)"


def worth(chosen: Clock, starts: Sequence[Start], in_turns: bool) -> str:
    """What the interval holds for, in words."""
    share = others(starts)
    beside = f"; other work had {share:.0%} of the CPUs" if share is not None and share > OTHERS_SHARE else ""
    if chosen is Clock.CPU:
        how = f"CPU time of the training thread, which does all of the work and waits for nothing else{beside}"
        return f"{how}: the interval holds for a quiet machine too, but for shared caches and hyper-threads"
    how = "the time that passed, of both sides in turns" if in_turns else "the time that passed, one start at a time"
    return f"{how}{beside}" + (": the interval holds for a machine as busy as this one was" if beside else "")
