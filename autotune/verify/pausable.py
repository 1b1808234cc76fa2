"""Whether a run may be paused, how long it waits at a time, and whether two time-sliced runs were compared fairly."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import collect
from autotune.model.derived import Derived
from autotune.model.recording import Recording
from autotune.verify.thresholds import OVERLAP, WAITING
from autotune.verify.time_slicing import PausedGroup


def may_be_stopped(collected: collect.Collected) -> bool:
    """Whether it is one process, in the group that was started, that trains on the CPU and uses no other device."""
    first = collected.recordings[0]
    is_alone = len(collected.recordings) == 1 and first.process.get("world_size") in (None, 1)
    is_in_group = collected.pid is not None and first.process.get("group") == collected.pid
    on_cpu = first.device_type == "cpu" and first.memory.get("peak_reserved_bytes") is None
    return is_alone and is_in_group and on_cpu


def wait_s(recording: Recording, derived: Derived) -> float | None:
    """About how long it waits at a time for something that is no CPU: to prepare a batch, and a step at most where the
    training thread sleeps. None when that thread's CPU time is not known. A thread that could run and had no CPU does
    not sleep, as far as the system tells the two apart."""
    window, step = recording.window, derived.step
    if window is None or window.cpu_ns is None or step is None:
        return None
    fetches = [one for one in recording.fetches if one.start_ns >= window.start_ns]
    wall_ns, cpu_ns = (sum(getattr(one, name) for one in fetches) for name in ("wall_ns", "cpu_ns"))
    has_workers = any(not one.in_main for one in fetches)
    queued_ns = window.queued_ns or 0
    asleep_ns = wall_ns - cpu_ns - (sum(one.queued_ns or 0 for one in fetches) if has_workers else queued_ns)
    of_batch_s = asleep_ns / len(fetches) / 1e9 if asleep_ns > WAITING * wall_ns else 0.0
    # Workers are stopped along with who waits for them.
    asleep_ms = step.mean_ms - (window.cpu_ns + queued_ns) / window.steps / 1e6
    asleep_ms -= (step.breakdown_ms.get("data_wait") or 0.0) if has_workers else 0.0
    return max(of_batch_s, step.mean_ms / 1000 if asleep_ms > WAITING * step.mean_ms else 0.0)


def were_fair(ran: Sequence[tuple[collect.Collected, PausedGroup]]) -> bool:
    """Whether all windows lie within the time slices and overlap."""
    spans = [_span_s(collected, paused) for collected, paused in ran]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return False
    shortest = min(end - begin for begin, end in known)
    shared = min(end for _, end in known) - max(begin for begin, _ in known)
    return shared >= OVERLAP * shortest


def _span_s(collected: collect.Collected, paused: PausedGroup) -> tuple[float, float] | None:
    """The window on the machine's clock; None without one, or if it began before the time slices.

    A script with fewer steps than requested ends its window when it ends.
    """
    first = collected.recordings[0] if collected.recordings else None
    is_whole = collected.ended_by == "probe" or (collected.ended_by == "script" and collected.exit_code == 0)
    if not is_whole or first is None or first.window is None:
        return None
    begin, end = ((first.origin_ns + at) / 1e9 for at in (first.window.start_ns, first.window.end_ns))
    return (begin, end) if paused.in_turns_since() <= begin else None
