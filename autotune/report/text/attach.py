"""What bounds a process that runs, what says so, what could be seen by which tier, and whether a restart can pay."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.attached import Attached, AttachedRestart, GpuUse, ThreadUse, Tier
from autotune.report.labels import PHASES
from autotune.report.text.layout import MIN_WIDTH, StyledLine, paragraph, spread, to_text, wrap
from autotune.report.units import duration, number, percent, size, step_time

_ANSWERS = {"not_worth_it": "no", "may_pay": "it may be", "cannot_tell": "cannot tell"}
_TIERS = {"counters": "1 system's counters", "stacks": "2 stacks", "window": "3 window of the probe"}
_STATES = {"used": "", "refused": "not possible: ", "not_asked": "not asked for: "}
LEAST_GROWTH, LEAST_IO = 1 << 20, 1 << 20
"""Bytes per second: less is what an allocator does, or a log."""

LEAST_SHARE = 0.01

MOST_OTHERS, MOST_LINES = 4, 4


def render(found: Attached, colour: bool, width: int) -> str:
    """The report as text."""
    width = max(MIN_WIDTH, width)
    lines = [*wrap(found.verdict.text, width), StyledLine(""), *_head(found, width)]
    lines += paragraph("Seen", "; ".join(found.verdict.evidence), width)
    for head, text in (
        ("Threads", _threads(found)),
        ("Window", _window(found)),
        ("Stacks", _stacks(found)),
        ("Limits", _limits(found)),
        ("Memory", _memory(found)),
        ("GPU", "; ".join(map(_gpu, found.gpus)) or f"none seen: {found.why_no_gpu}"),
        ("Storage", _storage(found)),
        ("Progress", _progress(found)),
        ("Worth a restart", _restart(found.restart)),
        ("Also of this job", _others(found)),
        ("Notes", "; ".join(found.notes)),
    ):
        lines += paragraph(head, text, width)
    lines.append(StyledLine(""))
    for tier in found.tiers:
        lines += _tier(tier, width)
    return to_text(lines, colour, width)


def _head(found: Attached, width: int) -> list[StyledLine]:
    process = found.process
    parts = [f"{process.script}, process {process.pid}"]
    parts += [f"rank {process.rank}"] if process.rank is not None else []
    parts += [f"of {process.user}"] if not process.is_own else []
    parts += [f"Python {process.python}"] if process.python else []
    age = [f"running for {duration(process.age_s)}"] if process.age_s is not None else []
    return spread(", ".join(parts), ", ".join([*age, f"seen for {duration(found.seconds)}"]), width, "heading")


def _threads(found: Attached) -> str:
    parts = [f"main {_use(found.main)}"] if found.main is not None else []
    parts += [f"{use.name} {_use(use)}" for use in found.threads]
    parts += [f"worker {one.pid} {_use(one.use)}" for one in found.workers[:MOST_OTHERS]]
    more = len(found.workers) - MOST_OTHERS
    return "; ".join([*parts, *([f"and {more} more workers"] if more > 0 else [])])


def _use(use: ThreadUse) -> str:
    """ "98 % CPU, 1 % without one, waits 20 %"."""
    parts = [f"{percent(use.cpu_share)} CPU"]
    if use.queued_share is not None and use.queued_share >= LEAST_SHARE:
        parts.append(f"ready without one {percent(use.queued_share)}")
    if use.waits_for_work_share is not None and use.waits_for_work_share >= LEAST_SHARE:
        parts.append(f"waits {percent(use.waits_for_work_share)}")
    if use.disk_share >= LEAST_SHARE:
        parts.append(f"storage {percent(use.disk_share)}")
    return ", ".join(parts)


def _window(found: Attached) -> str:
    """ "20 steps of 50.0 ms: data wait 30.0 ms (train.py:7), forward 20.0 ms"."""
    if found.window is None:
        return ""
    window = found.window.window
    parts = [
        f"{PHASES.get(phase, phase)} {step_time(ms)}{f' ({place})' if (place := window.places.get(phase)) else ''}"
        for phase, ms in sorted(window.phases_ms.items(), key=lambda one: -one[1])
        if ms >= LEAST_SHARE * window.step_ms
    ]
    return f"{window.steps} steps of {step_time(window.step_ms)}: {', '.join(parts)}"


def _stacks(found: Attached) -> str:
    """The phases, and the user's lines, by their shares of the samples."""
    stacks = found.stacks
    if stacks is None:
        return ""
    phases = sorted(stacks.phases.items(), key=lambda one: -one[1])
    parts = [f"{PHASES.get(phase, phase)} {percent(share)}" for phase, share in phases if share >= LEAST_SHARE]
    lines = [
        f"{line.file}:{line.line} ({line.function}, {PHASES.get(line.phase, line.phase)}) {percent(line.share)}"
        for line in stacks.lines[:MOST_LINES]
    ]
    at = f"; at {', '.join(lines)}" if lines else ""
    return f"{', '.join(parts)} of {stacks.samples} samples of the training thread by {stacks.by}{at}"


def _limits(found: Attached) -> str:
    cpus = found.cpus
    if cpus.allowed is None:
        return ""
    parts = [f"{number(cpus.allowed)} CPUs by {cpus.limited_by or 'the host'}"]
    if cpus.throttled_share is not None and cpus.throttled_share >= LEAST_SHARE:
        parts.append(f"held back by a quota {percent(cpus.throttled_share)} of the time")
    if cpus.omp_threads is not None:
        parts.append(f"OMP_NUM_THREADS={cpus.omp_threads}")
    if cpus.of_others is not None:
        parts.append(f"other processes use {number(cpus.of_others)} CPUs")
    return ", ".join(parts)


def _memory(found: Attached) -> str:
    memory = found.memory
    parts = [f"{size(memory.rss_bytes)} resident"] if memory.rss_bytes is not None else []
    if memory.children_rss_bytes is not None:
        parts.append(f"{size(memory.children_rss_bytes)} in its children (shared pages count in each)")
    if memory.left_bytes is not None:
        of = f" of {size(memory.limit_bytes)}" if memory.limit_bytes is not None else ""
        parts.append(f"head-room {size(memory.left_bytes)}{of}")
    if memory.growth_bytes_per_s is not None and memory.growth_bytes_per_s >= LEAST_GROWTH:
        parts.append(f"it grew by {size(memory.growth_bytes_per_s)} a second")
    parts += [f"{size(memory.swap_bytes)} in swap"] if memory.swap_bytes else []
    parts += [f"{memory.oom_kills} processes of its control group were killed for memory"] if memory.oom_kills else []
    return ", ".join(parts)


def _gpu(gpu: GpuUse) -> str:
    parts = [gpu.name or "a GPU"]
    if gpu.busy_share is not None:
        parts.append(f"kernels run in {percent(gpu.busy_share)} of NVML's periods")
    parts += [f"{size(gpu.process_bytes)} of this process"] if gpu.process_bytes is not None else []
    if gpu.left_bytes is not None and gpu.total_bytes is not None:
        parts.append(f"head-room {size(gpu.left_bytes)} of {size(gpu.total_bytes)}")
    if gpu.throttled_share:
        why = f" ({', '.join(gpu.slow_downs)})" if gpu.slow_downs else ""
        parts.append(f"slowed down {percent(gpu.throttled_share)} of the time{why}")
    parts += [f"{gpu.other_processes} other processes"] if gpu.other_processes else []
    parts += (
        []
        if gpu.is_certain
        else ["NVML does not list the process, which may use another one: this is the first that it sees"]
    )
    return ", ".join(parts)


def _storage(found: Attached) -> str:
    read, write = found.storage.read_bytes_per_s, found.storage.write_bytes_per_s
    if read is None or write is None or max(read, write) < LEAST_IO:
        return ""
    return f"reads {size(read)} and writes {size(write)} a second"


def _progress(found: Attached) -> str:
    at = found.progress
    if at is None:
        return f"not known: {found.why_no_progress}"
    parts = [f"step {at.step:,}" + (f" of {at.total:,}" if at.total is not None else "")]
    if at.step_s is not None:
        how = "by the line itself" if at.is_own_rate else "by two readings"
        parts.append(f"{step_time(1000 * at.step_s)} per step {how}")
    parts += [f"{duration(at.left_s)} left"] if at.left_s is not None else []
    return f"{', '.join(parts)} ({at.source})"


def _restart(restart: AttachedRestart) -> str:
    parts = [_ANSWERS[restart.answer]]
    if restart.saves_s is not None and restart.left_s is not None:
        parts.append(f"at most {duration(restart.saves_s)} of {duration(restart.left_s)} can be won back")
    elif restart.wasted_share is not None:
        parts.append(f"at most {percent(restart.wasted_share)} of the time left can be won back")
    missing = f"; not known: {', '.join(restart.missing)}" if restart.missing else ""
    return f"{', '.join(parts)}{missing}"


def _others(found: Attached) -> str:
    """The other ranks and children, which this report is not of."""
    named = [
        f"{one.pid} ({f'rank {one.rank}' if one.rank is not None else f'{one.what} {one.name}'})"
        for one in found.others[:MOST_OTHERS]
    ]
    more = len(found.others) - MOST_OTHERS
    return ", ".join([*named, *([f"and {more} more"] if more > 0 else [])])


def _tier(tier: Tier, width: int) -> Iterator[StyledLine]:
    yield from wrap(f"{_TIERS[tier.tier]}: {_STATES[tier.state]}{tier.said}", width, first="Tier ", rest="  ")
    if tier.to_do:
        yield from wrap(tier.to_do, width, first="  ", rest="  ")
