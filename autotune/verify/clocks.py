"""Which clock a verification uses: wall-clock time, or CPU time, which excludes waits for a CPU.

Beside other work CPU time grows, too: caches, hyper-threads and, in a virtual machine, the host's CPUs are shared (a
step of 16 ms took up to 33 ms beside four to eight busy processes per CPU). Time slicing exposes both sides to it.

The CPU time of the training thread equals the step time if that thread does all of the work and waits only for a CPU.
It misses other threads (which share the work or spin while they wait), processes that prepare batches, disks, devices
and sleep. Each of these leaves a trace, and with any of them the clock is wall-clock time.

Where training only waits for batches, and the workers only for a CPU, the CPU time of the workers gives the step: with
one worker that of a batch, with two half of it. Both sides must have the same number of workers, because the transfer
of a batch to the training process is not included.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from autotune.model.recording import Event, Fetch, RecordedWindow, Recording
from autotune.model.verified import AFTER, BEFORE, SIDES, Clock, RunResult, Verdict
from autotune.verify.disturbances import disturbances
from autotune.verify.thresholds import ASLEEP, KEEPS_UP, MORE_CPUS, MOST_DISTURBED, OTHER_THREADS, OTHERS_SHARE

Own = Callable[[int, int], float]
"""Nanoseconds between two times of a Recording, without those in which the process was stopped."""


def cpu_ms(recording: Recording) -> float | None:
    """The CPU time of the mean measured step; None where other threads or processes share it, or it is unknown."""
    window = recording.window
    if window is None or not window.step_cpu_ns or not _is_on_cpu(recording) or _in_workers(recording, window):
        return None
    if window.cpu_ns is None or window.process_cpu_ns is None:
        return None
    if window.process_cpu_ns - window.cpu_ns > OTHER_THREADS * window.cpu_ns:
        return None
    marks = window.step_cpu_ns[window.warmup_steps - 1 : window.warmup_steps + window.steps]
    return (marks[-1] - marks[0]) / 1e6 / (len(marks) - 1) if len(marks) > 1 else None


def _is_on_cpu(recording: Recording) -> bool:
    return recording.device_type == "cpu"


def sleep_share(recording: Recording, own: Own) -> float | None:
    """Share of the window in which it waited for something other than a CPU; None where unknown.

    With workers the larger share: of the training thread beside its waits for batches, and of the workers' batches.
    """
    window = recording.window
    own_ns = own(window.start_ns, window.end_ns) if window is not None else 0.0
    if window is None or window.cpu_ns is None or window.queued_ns is None or not own_ns:
        return None
    fetches = _in_workers(recording, window)
    waits_ns = sum(own(one.start_ns, one.end_ns) for one in _came(recording, window)) if fetches else 0.0
    asleep = (own_ns - window.cpu_ns - window.queued_ns - waits_ns) / own_ns
    of_workers = _asleep_of(fetches, own) if fetches else 0.0
    return None if of_workers is None else max(asleep, of_workers)


def _asleep_of(fetches: Sequence[Fetch], own: Own) -> float | None:
    queued = [one.queued_ns for one in fetches if one.queued_ns is not None]
    own_ns = sum(own(one.start_ns, one.start_ns + one.wall_ns) for one in fetches)
    asleep_ns = own_ns - sum(one.cpu_ns for one in fetches) - sum(queued)
    return asleep_ns / own_ns if len(queued) == len(fetches) and own_ns else None


def loader_ms(recording: Recording, num_cpus: float | None) -> float | None:
    """CPU time of the workers for the batches of a step, divided by their number, on a machine with `num_cpus`. None
    where something else is slower, or it is unknown."""
    window = recording.window
    if window is None or window.cpu_ns is None or num_cpus is None:
        return None
    fetches = _in_workers(recording, window)
    if not fetches or not _is_on_cpu(recording):
        return None
    workers = num_workers(recording)
    pace_ns = statistics.fmean(one.cpu_ns for one in fetches) * len(_came(recording, window)) / workers
    has_cpus = window.cpu_ns + pace_ns * workers <= num_cpus * pace_ns
    return pace_ns / window.steps / 1e6 if window.cpu_ns <= KEEPS_UP * pace_ns and has_cpus else None


def num_workers(recording: Recording) -> int:
    """The number of workers that prepared batches."""
    return len({one.pid for one in recording.fetches if not one.in_main})


def cpus(recordings: Sequence[Recording], own: Own) -> float | None:
    """How many CPUs all processes and their workers kept busy in the window; None where that is not known."""
    window, used_ns = recordings[0].window, [_used_ns(one) for one in recordings]
    known = [used for used in used_ns if used is not None]
    own_ns = own(window.start_ns, window.end_ns) if window is not None else 0.0
    return sum(known) / own_ns if len(known) == len(used_ns) and own_ns else None


def _used_ns(recording: Recording) -> int | None:
    window = recording.window
    if window is None or window.process_cpu_ns is None:
        return None
    return window.process_cpu_ns + sum(one.cpu_ns for one in _in_workers(recording, window))


def _came(recording: Recording, window: RecordedWindow) -> list[Event]:
    """The waits for batches that came in the window."""
    return [one for one in recording.events if one.kind == "fetch" and one.flag and _is_in(window, one.end_ns)]


def _in_workers(recording: Recording, window: RecordedWindow) -> list[Fetch]:
    return [one for one in recording.fetches if not one.in_main and _is_in(window, one.start_ns)]


def _is_in(window: RecordedWindow, at_ns: int) -> bool:
    return window.start_ns <= at_ns <= window.end_ns


def clock(starts: Sequence[RunResult]) -> Clock:
    """CPU time where it equals the step time in all runs, those of the rehearsals included."""
    if not all(_is_awake([start for start in starts if start.side == side]) for side in SIDES):
        return Clock.WALL
    if all(start.cpu_ms is not None for start in starts):
        return Clock.CPU
    is_paced = all(start.loader_ms is not None for start in starts)
    return Clock.LOADER if is_paced and len({start.workers for start in starts}) == 1 else Clock.WALL


def _is_awake(side: Sequence[RunResult]) -> bool:
    known = [start.asleep_share for start in side if start.asleep_share is not None]
    return len(known) == len(side) and (not known or statistics.fmean(known) <= ASLEEP)


def mean_ms(chosen: Clock, start: RunResult) -> float:
    """The mean step."""
    if chosen is Clock.LOADER and start.loader_ms is not None:
        return start.loader_ms
    return start.cpu_ms if chosen is Clock.CPU and start.cpu_ms is not None else start.step_ms


def other_cpu_share(starts: Sequence[RunResult]) -> float | None:
    """The share of the CPUs that other work had: the median of the runs; None where one is unknown."""
    known = [start.others_share for start in starts if start.others_share is not None]
    return statistics.median(known) if len(known) == len(starts) and known else None


def doubt(said: Verdict, starts: Sequence[RunResult]) -> str:
    """Why wall-clock time does not support this verdict on a disturbed machine; "" where it does.

    A side that needs more CPUs than other work leaves is slower here than alone; if it wins even so, it is faster.
    """
    disturbed = [what for what in disturbances(starts) if what]
    if len(disturbed) <= MOST_DISTURBED * len(starts):
        return ""
    sides = [[start.cpus for start in starts if start.side == side] for side in (BEFORE, AFTER)]
    when = f"{statistics.mode(disturbed)} during {len(disturbed)} of {len(starts)} runs"
    known = [[value for value in side if value is not None] for side in sides]
    if any(len(some) < len(every) for some, every in zip(known, sides, strict=True)):
        return f"{when}, and the CPU demand of the sides is unknown"
    old, new = map(statistics.median, known)
    handicapped = {old > MORE_CPUS * new: Verdict.FASTER, new > MORE_CPUS * old: Verdict.SLOWER}.get(True)
    if handicapped is None or said not in (handicapped, Verdict.NO_DIFFERENCE):
        return ""
    return f"{when}, which slows the side that uses more CPUs ({old:.1f} before, {new:.1f} after)"


def validity(chosen: Clock, starts: Sequence[RunResult], in_turns: bool) -> str:
    """What the interval holds for, in words."""
    share = other_cpu_share(starts)
    beside = f"; other work took {share:.0%} of the CPUs" if share is not None and share > OTHERS_SHARE else ""
    if chosen is Clock.WALL:
        how = "wall-clock time, both sides interleaved" if in_turns else "wall-clock time, one run at a time"
        return f"{how}{beside}" + (": the interval is valid for a machine as busy as this one was" if beside else "")
    how = {
        Clock.CPU: "CPU time of the training thread, which does all the work",
        Clock.LOADER: "CPU time of the loader's workers, for which training waits",
    }[chosen]
    if not beside:
        return how
    return (
        f"{how}{beside}: the interval is also valid for an idle machine, if both sides share caches and cores equally"
    )
