"""Processes that were looked at from outside, for tests of what is made of it."""

from __future__ import annotations

from msgspec.structs import replace

from autotune.attach.facts import Facts
from autotune.model.attached import (
    Attached,
    AttachedProcess,
    AttachedProgress,
    AttachedRestart,
    AttachedWindow,
    AttachVerdict,
    CpuUse,
    GpuUse,
    HostMemory,
    OtherProcess,
    StackLine,
    Stacks,
    Storage,
    ThreadUse,
    Tier,
    WorkerUse,
)
from autotune.model.watched import WatchedWindow

GIB = 2**30
MAIN = ThreadUse("python", 0.3, 0.01, 0.0, 0.6)
WORKER = WorkerUse(4712, ThreadUse("pt_data_worker", 0.9, 0.02, 0.0, 0.05), 0.95)
CPUS = CpuUse(0.3, 1.9, 0.1, 8.0, "cgroup", 0.0, "4")
MEMORY = HostMemory(GIB, 2 * GIB, 0, 24 * GIB, 20 * GIB, 0.0, 0.0, 0)
GPU = GpuUse("NVIDIA H100 80GB HBM3", 0.4, 0.0, (), 1980.0, 30 * GIB, 31 * GIB, 80 * GIB, 0, True, 49 * GIB)
PROGRESS = AttachedProgress("train.log", 1200, 50_000, 2.0, False, 97_600.0)


def use(cpu=0.0, queued=0.0, disk=0.0, waits=0.0, name="python"):
    """What a thread did."""
    return ThreadUse(name, cpu, queued, disk, waits)


def facts(**changes):
    """Those of a training whose loader starves it, on the CPU."""
    workers = (WORKER, replace(WORKER, pid=4713))
    one = Facts(MAIN, (), workers, CPUS, MEMORY, Storage(0.0, 0.0), (), PROGRESS, "S", False, None)
    return replace(one, **changes)


def nothing_known():
    """A process of another user that hides what it can."""
    return attached(
        process=AttachedProcess(4711, "python", "ann", False, None, None, None, None, "S"),
        tiers=(Tier("counters", "used", "its threads; the system hides the rest", "Run autotune with sudo."),),
        verdict=AttachVerdict("cannot_tell", "Cannot tell what bounds it.", ()),
        main=None,
        workers=(),
        cpus=CpuUse(0.0, 0.0, None, None, None, None, None),
        memory=HostMemory(None, None, None, None, None, None, 0.0, None),
        storage=Storage(None, None),
        gpus=(),
        why_no_gpu="no NVIDIA driver",
        progress=None,
        why_no_progress="its output goes to a terminal",
        restart=AttachedRestart("cannot_tell", None, None, None, None, ("how far it is",)),
        stacks=None,
        window=None,
        others=(),
    )


def attached(**changes):
    """One that all three tiers have looked at."""
    window = WatchedWindow(
        3, 20, "planned", 50.0, {"data_wait": 30.0, "forward": 20.0}, {"data_wait": "train.py:7"}, None, 1
    )
    one = Attached(
        process=AttachedProcess(4711, "train.py", "me", True, "3.14", True, 10_800.0, 0, "S"),
        seconds=15.0,
        samples=60,
        tiers=(
            Tier("counters", "used", "its threads and children, limits, memory"),
            Tier("stacks", "refused", "ptrace is not allowed", "Add --cap-add SYS_PTRACE."),
            Tier("window", "used", "20 steps"),
        ),
        verdict=AttachVerdict("starved_by_workers", "Starved by its loader.", ("2 loader workers",)),
        main=MAIN,
        threads=(use(0.2, name="pt_autograd_0"),),
        workers=tuple(replace(WORKER, pid=4712 + number) for number in range(6)),
        cpus=CPUS,
        memory=replace(MEMORY, growth_bytes_per_s=5.0 * 2**20, swap_bytes=2**20, oom_kills=1),
        storage=Storage(5.0 * 2**20, 0.0),
        gpus=(replace(GPU, throttled_share=0.2, slow_downs=("power cap",), other_processes=1, is_certain=False),),
        why_no_gpu="",
        progress=PROGRESS,
        why_no_progress="",
        restart=AttachedRestart("may_pay", 97_600.0, 0.6, 58_560.0, 1952.0, ("when it last saved",)),
        stacks=Stacks(
            "py-spy", 200, {"data_wait": 0.6, "forward": 0.4}, (StackLine("train.py", 7, "main", "data_wait", 0.6),)
        ),
        window=AttachedWindow(window, "/home/me/project/.autotune/watch/x/state-h-4711.json"),
        others=tuple(OtherProcess(5000 + rank, "rank", "train.py", rank) for rank in range(1, 7)),
        notes=("it runs in a container of its own, as process 1",),
    )
    return replace(one, **changes)
