"""From what was read to what the process did: shares of the time, rates, head-room. Arithmetic only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from autotune.attach.sampling import Moment, Samples
from autotune.attach.target import Target
from autotune.machine import limits, other_process
from autotune.machine.gpu_use import GpuReading
from autotune.machine.other_process import ProcessReading, ThreadReading
from autotune.model.attached import (
    AttachedProgress,
    CpuUse,
    GpuUse,
    HostMemory,
    Storage,
    ThreadUse,
    WorkerUse,
)
from autotune.model.outlook import ProgressLine

WAITS = ("futex", "poll", "pipe_read", "do_wait", "select")
"""Where in the kernel a thread sleeps that waits for another thread or process: locks, polls, pipes."""

MOST_THREADS = 5
LEAST_GROWTH_S = 5.0
"""In a shorter look a single batch is growth."""

LEAST_CPU = 0.02


class Facts(Struct, frozen=True):
    """What the counters say, all of it of the same seconds."""

    main: ThreadUse | None
    threads: tuple[ThreadUse, ...]
    workers: tuple[WorkerUse, ...]
    cpus: CpuUse
    memory: HostMemory
    storage: Storage
    gpus: tuple[GpuUse, ...]
    progress: AttachedProgress | None
    state: str
    """Of the process at the last look: R, S, D, T ..."""

    has_cuda: bool | None
    """Whether it has loaded CUDA; None where it hides that."""

    cores: int | None
    """Physical cores that it may use, None where the kernel does not tell."""


def facts(target: Target, samples: Samples, pasted: ProgressLine | None = None) -> Facts:
    """`pasted` is the progress line that the user gave, which counts where no file has one."""
    moments = samples.moments
    uses = dict(_uses([(moment.at_s, moment.tree[0]) for moment in moments]))
    main = uses.pop(target.pid, None)
    workers = tuple(_workers(target, moments))
    busy = sorted((use for use in uses.values() if use.cpu_share >= LEAST_CPU), key=lambda use: -use.cpu_share)
    return Facts(
        main=main,
        threads=tuple(busy[:MOST_THREADS]),
        workers=workers,
        cpus=_cpus(target, samples),
        memory=_memory(samples),
        storage=_storage(samples),
        gpus=tuple(map(_gpu, samples.gpus)),
        progress=_progress(moments, pasted),
        state=moments[-1].tree[0].state,
        has_cuda=target.about.has_cuda,
        cores=samples.cores,
    )


_Readings = list[tuple[float, ProcessReading]]
"""Of one process, each with its moment."""


def _uses(readings: _Readings) -> Iterator[tuple[int, ThreadUse]]:
    """What each thread of one process did, by its number; those that were seen at least twice."""
    rows: defaultdict[int, list[tuple[float, ThreadReading]]] = defaultdict(list)
    for at_s, reading in readings:
        for thread in reading.threads:
            rows[thread.tid].append((at_s, thread))
    for tid, seen in rows.items():
        if len(seen) > 1:
            yield tid, _use([thread for _, thread in seen], seen[-1][0] - seen[0][0])


def _use(seen: Sequence[ThreadReading], seconds: float) -> ThreadUse:
    """Shares of the `seconds` in which it was there."""
    first, last = seen[0], seen[-1]
    queued = None if last.queued_s is None or first.queued_s is None else (last.queued_s - first.queued_s) / seconds
    asleep = [one for one in seen if one.state == "S"]
    is_told = any(one.sleeps_in for one in asleep) or not asleep
    waits = sum(any(name in one.sleeps_in for name in WAITS) for one in asleep)
    return ThreadUse(
        name=last.name,
        cpu_share=(last.cpu_s - first.cpu_s) / seconds,
        queued_share=queued,
        disk_share=sum(one.state == "D" for one in seen) / len(seen),
        waits_for_work_share=waits / len(seen) if is_told else None,
    )


def _workers(target: Target, moments: Sequence[Moment]) -> Iterator[WorkerUse]:
    """Those of one moment: an epoch's workers end with it, and the next one's would count as well. It is the moment
    whose workers were seen longest."""
    readings: defaultdict[int, _Readings] = defaultdict(list)
    known = {one.pid: role for one, role in target.children}
    for moment in moments:
        for one in moment.tree[1:]:
            if one.pid not in known:
                parent = other_process.about(one.parent) or target.about
                known[one.pid] = other_process.role(one, other_process.about(one.pid), parent)
            if known[one.pid] == "worker":
                readings[one.pid].append((moment.at_s, one))
    at_once = [[one.pid for one in moment.tree[1:] if one.pid in readings] for moment in moments]
    for pid in max(at_once, key=lambda pids: sum(len(readings[pid]) for pid in pids), default=[]):
        uses = dict(_uses(readings[pid]))
        if pid in uses:
            yield WorkerUse(pid, uses[pid], sum(use.cpu_share for use in uses.values()))


def _cpus(target: Target, samples: Samples) -> CpuUse:
    first, last = samples.moments[0], samples.moments[-1]
    own = (last.tree[0].cpu_s - first.tree[0].cpu_s) / samples.seconds
    all_ = max(own, (_of_tree(last) - _of_tree(first)) / samples.seconds)
    busy = (
        None
        if last.busy_cpu_s is None or first.busy_cpu_s is None
        else (last.busy_cpu_s - first.busy_cpu_s) / samples.seconds
    )
    mask = target.about.cpus
    return CpuUse(
        own=own,
        children=all_ - own,
        of_others=None if busy is None else max(0.0, busy - all_),
        allowed=limits.cpu_quota(mask, samples.quota, samples.host_cpus),
        limited_by=limits.cpu_limited_by(mask, samples.quota, samples.host_cpus),
        throttled_share=samples.throttled_share,
        omp_threads=target.environ.get("OMP_NUM_THREADS"),
    )


def _of_tree(moment: Moment) -> float:
    """CPU seconds of the tree so far, those of what has ended in it with them: its parent counts them on."""
    return sum(one.cpu_s + one.reaped_cpu_s for one in moment.tree)


def _memory(samples: Samples) -> HostMemory:
    first, last = samples.moments[0], samples.moments[-1]
    now, then = last.tree[0], first.tree[0]
    children = [one.rss_bytes for one in last.tree[1:] if one.rss_bytes is not None]
    swapped = [one.swap_bytes for one in last.tree if one.swap_bytes is not None]
    is_long = samples.seconds >= LEAST_GROWTH_S and now.rss_bytes is not None and then.rss_bytes is not None
    faults = {one.pid: one.major_faults for one in first.tree}
    new = sum(one.major_faults - faults.get(one.pid, one.major_faults) for one in last.tree)
    return HostMemory(
        rss_bytes=now.rss_bytes,
        children_rss_bytes=sum(children) if children else None,
        swap_bytes=sum(swapped) if swapped else None,
        limit_bytes=samples.memory_limit_bytes,
        left_bytes=samples.memory_left_bytes,
        growth_bytes_per_s=((now.rss_bytes or 0) - (then.rss_bytes or 0)) / samples.seconds if is_long else None,
        major_faults_per_s=new / samples.seconds,
        oom_kills=samples.oom_kills,
    )


def _storage(samples: Samples) -> Storage:
    first, last = samples.moments[0].tree, samples.moments[-1].tree

    def rate(count: Callable[[ProcessReading], int | None]) -> float | None:
        """Per second, of the processes that were there at both ends and tell it; None where none does."""
        before = {one.pid: known for one in first if (known := count(one)) is not None}
        moved = [known - before[one.pid] for one in last if one.pid in before and (known := count(one)) is not None]
        return sum(moved) / samples.seconds if moved else None

    return Storage(rate(lambda one: one.read_bytes), rate(lambda one: one.write_bytes))


def _gpu(reading: GpuReading) -> GpuUse:
    seen, used, total = reading.summary, reading.used_bytes, reading.total_bytes
    return GpuUse(
        name=reading.name,
        busy_share=seen["gpu_kernel_share"],
        throttled_share=seen["gpu_throttled_share"],
        slow_downs=reading.slow_downs,
        clock_mhz=seen["gpu_clock_mhz"],
        process_bytes=reading.process_bytes,
        used_bytes=used,
        total_bytes=total,
        other_processes=reading.other_processes,
        is_certain=reading.is_certain,
        left_bytes=None if used is None or total is None else total - used,
    )


def _progress(moments: Sequence[Moment], pasted: ProgressLine | None) -> AttachedProgress | None:
    """By two readings: the moments at which the step first and last moved are nearer to a step's end than ours are."""
    readings = [(moment.at_s, moment.progress) for moment in moments if moment.progress is not None]
    if not readings:
        return None if pasted is None or pasted.step is None else _own_rate("--at", pasted)
    last = readings[-1][1]
    steps = [(at, one.line.step or 0) for at, one in readings if one.line.total == last.line.total]
    moved = [(at, step) for (_, before), (at, step) in pairwise(steps) if step > before]
    begins_again = any(step < before for (_, before), (_, step) in pairwise(steps))
    if len(moved) < 2 or begins_again:
        return _own_rate(last.source, last.line, is_of_epoch=begins_again)
    (begin, first), (end, now) = moved[0], moved[-1]
    return _at(last.source, last.line, (end - begin) / (now - first), is_own_rate=False)


def _own_rate(source: str, line: ProgressLine, *, is_of_epoch: bool = False) -> AttachedProgress:
    return _at(source, line, line.step_s if line.adds_up else None, is_own_rate=True, is_of_epoch=is_of_epoch)


def _at(
    source: str, line: ProgressLine, step_s: float | None, *, is_own_rate: bool, is_of_epoch: bool = False
) -> AttachedProgress:
    """Where the run stands. What is left is unknown from a bar that counts the batches of one epoch: it names an epoch
    (the rule of predict/job_position.py), or it began again during the look."""
    step, is_of_epoch = line.step or 0, is_of_epoch or line.epoch is not None
    left_s = None if line.total is None or step_s is None or is_of_epoch else (line.total - step) * step_s
    return AttachedProgress(source, step, line.total, step_s, is_own_rate, left_s, is_of_epoch)
