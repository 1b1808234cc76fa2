"""What bounds the process, by evidence: the first of the cases below that the facts show, and what says so.

The counters of the system do not know what a thread runs: a case is named only where nothing else fits as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autotune.attach.facts import Facts
from autotune.machine.other_process import WORKER
from autotune.model.attached import AttachedWindow, AttachVerdict, Stacks, ThreadUse, VerdictKind, WorkerUse
from autotune.report.labels import PHASES
from autotune.report.units import number, percent, size, step_time

THROTTLED = 0.1
"""Of the time, held back by a quota."""

QUEUED = 0.15
"""Of the time, ready and without a CPU."""

SWAPPED, FAULTS = 64 << 20, 50.0
"""Bytes in swap, and pages per second that are read back: both together slow a training down."""

GPU_BUSY, GPU_THROTTLED = 0.85, 0.5
WAITING, SLEEPING = 0.25, 0.3
"""Of the main thread's time: it waits for another thread or process; it sleeps elsewhere."""

WORKING = 0.7
"""Of the workers' time, spent on batches: from here on the training thread waits for them."""

ONE_CORE, OTHERS = 0.85, 0.3
"""CPUs of the main thread, and of all its other threads: one thread does all the work."""

ALL_CPUS = 0.8
"""Of the CPUs that it may use."""

LAUNCHES = 0.005
"""CPUs of a main thread that waits for its children to end."""

STORAGE = 0.2

NOTICEABLE_CPUS = 0.2
"""CPUs that other processes of the machine use: fewer are not named."""

IDLE = 0.05
PYTHON = 0.5
"""Of the stack samples: what most of the time is."""

LARGEST = 0.4
"""Of a window's step: a smaller part is no bound, although none is larger."""

NOTHING, ALL = 0.005, 0.98
"""CPUs of a worker, and of its time that it waits for work: of a loader that nothing is asked of now."""


def verdict(facts: Facts, stacks: Stacks | None = None, window: AttachedWindow | None = None) -> AttachVerdict:
    """The first case that holds, else "cannot tell" with what was seen.

    A cause outside of the process comes first. Then comes the window, which knows the phases of each step.
    """
    outside = next((found for case in _OUTSIDE if (found := case(facts, stacks)) is not None), None)
    if outside is not None:
        return outside
    if window is not None:
        return _of_window(window, facts)
    for case in _CASES:
        found = case(facts, stacks)
        if found is not None:
            return found
    return AttachVerdict("cannot_tell", "Cannot tell what bounds it: no counter stands out.", tuple(_seen(facts)))


def busy_share(use: ThreadUse) -> float | None:
    """The share of the time that a worker spent on work; None if unknown."""
    return None if use.waits_for_work_share is None else 1.0 - use.waits_for_work_share


def working(facts: Facts) -> tuple[WorkerUse, ...]:
    """The workers that did anything: those of a second loader, as for evaluation, sleep all the time."""
    return tuple(one for one in facts.workers if one.cpus >= NOTHING or (one.use.waits_for_work_share or 0.0) < ALL)


def workers_busy(facts: Facts) -> float | None:
    """The mean of those that did anything; None without one that tells."""
    known = [share for worker in working(facts) if (share := busy_share(worker.use)) is not None]
    return sum(known) / len(known) if known else None


def queued_share(window: AttachedWindow) -> float | None:
    """The part of a window's step for which the training thread had no CPU. A step is the mean without the slowest
    tenth, which may have waited most: never more than all of it."""
    measured = window.window
    return None if measured.queued_ms is None else min(1.0, measured.queued_ms / measured.step_ms)


def gpu_busy(facts: Facts) -> float | None:
    """The share of the busiest GPU that is certainly its own; None where none tells."""
    return max((gpu.busy_share for gpu in facts.gpus if gpu.busy_share is not None and gpu.is_certain), default=None)


def is_gpu_unknown(facts: Facts) -> bool:
    """Whether a GPU may compute, and nothing says how much: then a thread that waits or sleeps tells nothing."""
    return (bool(facts.gpus) or facts.has_cuda is not False) and gpu_busy(facts) is None


def waiting(facts: Facts) -> float | None:
    """The share of the time that is lost while the main thread waits for others; a GPU may compute meanwhile."""
    if facts.main is None or facts.main.waits_for_work_share is None or is_gpu_unknown(facts):
        return None
    busy = gpu_busy(facts)
    return min(facts.main.waits_for_work_share, 1.0 - busy) if busy is not None else facts.main.waits_for_work_share


Case = Callable[[Facts, "Stacks | None"], "AttachVerdict | None"]


def _stopped(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    if facts.state not in "Tt":
        return None
    text = "It is stopped: a signal (SIGSTOP, Ctrl-Z) or a debugger holds it, and nothing of it runs."
    return _made("stopped", text, [f"state {facts.state}"])


def _swapping(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    memory = facts.memory
    if (memory.swap_bytes or 0) < SWAPPED or memory.major_faults_per_s < FAULTS:
        return None
    text = "Swapping: it waits for its own memory, which comes back from disk."
    evidence = [
        f"{size(memory.swap_bytes or 0)} in swap",
        f"{number(memory.major_faults_per_s)} pages a second read back",
    ]
    return _made("swapping", text, evidence)


def _throttled(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    share = facts.cpus.throttled_share
    if share is None or share < THROTTLED:
        return None
    limit = f", which allows {number(facts.cpus.allowed)} CPUs" if facts.cpus.allowed is not None else ""
    text = f"Throttled: for up to {percent(share)} of the time its control group's CPU quota{limit}, holds it back."
    return _made("throttled", text, list(_of_cpus(facts)), share)


def _gpu_throttled(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    slowed = max(
        (gpu for gpu in facts.gpus if gpu.is_certain), key=lambda gpu: gpu.throttled_share or 0.0, default=None
    )
    busy = gpu_busy(facts)
    if slowed is None or (slowed.throttled_share or 0.0) < GPU_THROTTLED or busy is None or busy < GPU_BUSY:
        return None
    why = ", ".join(slowed.slow_downs) or "heat or power"
    text = f"GPU-bound, on a GPU that is slowed down ({why}) for {percent(slowed.throttled_share or 0.0)} of the time."
    return _made("gpu_throttled", text, list(_of_gpus(facts)))


def _gpu_busy(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    busy = gpu_busy(facts)
    if busy is None or busy < GPU_BUSY:
        return None
    who = "The GPU is busy" if len(facts.gpus) == 1 else f"The busiest of its {len(facts.gpus)} GPUs is busy"
    text = f"{who}: kernels run in {percent(busy)} of NVML's periods"
    others = sum(gpu.other_processes or 0 for gpu in facts.gpus)
    if others:
        text += f", those of {others} other processes with them: how much of it is this one's is not told."
    else:
        text += (
            ". Counters do not tell how well these kernels use the GPU, nor whether they wait for other ranks (NCCL)."
        )
    return _made("gpu_busy", text, list(_of_gpus(facts)))


def _storage(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    main = facts.main.disk_share if facts.main is not None else 0.0
    workers = [worker.use.disk_share for worker in facts.workers]
    worst = max([main, sum(workers) / len(workers) if workers else 0.0])
    if worst < STORAGE:
        return None
    who = "it waits" if worst == main else "its loader workers wait"
    text = f"Storage-bound: {who} for storage {percent(worst)} of the time."
    return _made("storage", text, [*_of_storage(facts), *_of_workers(facts)])


def _launcher(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    """A parent of torch.multiprocessing.spawn: its ranks look like workers of torch before 2.6, which have no name."""
    main = facts.main
    named = any(worker.use.name == WORKER for worker in facts.workers)
    if main is None or main.cpu_share >= LAUNCHES or named or not facts.workers:
        return None
    pid = facts.workers[0].pid
    text = (
        "Nothing runs in it but in the processes that it has started. If these train (torch.multiprocessing.spawn), "
        f"look at one of them: autotune diagnose --pid {pid}"
    )
    return _made("idle", text, [*_of_main(facts), *_of_workers(facts)])


def _starved(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    wait, busy = waiting(facts), workers_busy(facts)
    if wait is None or busy is None or wait < WAITING or busy < WORKING:
        return None
    num = len(working(facts))
    count = f"{num} loader worker{'s' if num > 1 else ''}"
    text = (
        f"Starved by its loader: the training thread waits {percent(wait)} of the time, while its {count} "
        f"{'are' if num > 1 else 'is'} at work {percent(busy)} of it."
    )
    return _made("starved_by_workers", text, [*_of_workers(facts), *_of_cpus(facts), *_of_gpus(facts)], wait)


def _passing(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    """What does not last: nothing of the training was seen."""
    for phase in ("checkpoint", "evaluation"):
        share = stacks.phases.get(phase, 0.0) if stacks is not None else 0.0
        if share >= PYTHON:
            text = f"{percent(share)} of its stack samples are in {PHASES[phase]}: look again when that is over."
            return _made("phase", text, list(_seen(facts)))
    return None


def _data_wait(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    share = stacks.phases.get("data_wait", 0.0) if stacks is not None else 0.0
    if stacks is None or share < PYTHON or is_gpu_unknown(facts):
        return None
    text = f"Input-bound: in {percent(share)} of its stack samples it waits for data{_place(stacks, 'data_wait')}."
    busy = gpu_busy(facts)
    return _made("input_bound", text, list(_seen(facts)), share if busy is None else min(share, 1.0 - busy))


def _place(stacks: Stacks, phase: str) -> str:
    line = next((one for one in stacks.lines if one.phase == phase), None)
    return f", mostly {line.file}:{line.line}" if line is not None else ""


def _queued(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    share = facts.main.queued_share if facts.main is not None else None
    if share is None or share < QUEUED:
        return None
    text = f"Short of CPUs: for {percent(share)} of the time the training thread is ready to run and gets no CPU."
    return _made("queued", text, list(_of_cpus(facts)), share)


def _cpu_busy(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    allowed = facts.cpus.allowed
    if allowed is None or allowed < 1.5:
        return None
    cores = min(allowed, facts.cores or allowed)  # torch starts one thread for a core, not for each of its hyperthreads
    if facts.cpus.own < ALL_CPUS * cores:
        return None
    of = f"{number(allowed)}" if cores == allowed else f"{number(allowed)}, which are {number(cores)} cores"
    text = f"It computes on all CPUs that it may use: {number(facts.cpus.own)} of {of}."
    return _made("cpu_busy", text, list(_of_cpus(facts)))


def _one_thread(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    main = facts.main
    is_alone = main is not None and main.cpu_share >= ONE_CORE and facts.cpus.own - main.cpu_share <= OTHERS
    if main is None or not is_alone or is_gpu_unknown(facts):
        return None
    evidence = [f"main thread {percent(main.cpu_share)} of a core", *_of_cpus(facts), *_of_gpus(facts)]
    busy = gpu_busy(facts)
    lost = None if busy is None else 1.0 - busy
    python = stacks.phases.get("other", 0.0) if stacks is not None else 0.0
    if stacks is not None and python > PYTHON:
        where = f"{percent(python)} of its time is outside of the model and the optimizer{_place(stacks, 'other')}"
        if not facts.gpus and facts.has_cuda is False:
            return _made("one_python_thread", f"Bound by one Python thread: {where}.", evidence)
        waits = "a wait for the GPU (item, cpu, synchronize), which spins"
        text = f"Bound by one thread: {where}. That is Python, or {waits}."
        return _made("one_thread", text, evidence, lost)
    text = "Bound by one thread: the main thread fills a core, and no other thread works"
    if busy is not None:
        text += f"; the GPU runs kernels in only {percent(busy)} of NVML's periods"
    if facts.cpus.omp_threads == "1":
        text += ". OMP_NUM_THREADS=1 lets operations of torch use one thread"
    elif facts.cpus.allowed is not None and facts.cpus.allowed < 1.5:
        text += ". It may use no more than that CPU"
    waits = ", or a wait for the GPU, which spins" if facts.gpus or facts.has_cuda is not False else ""
    what = f"Python or operations of torch{waits}: stacks tell, counters do not."
    return _made("one_thread", f"{text}. {what}", evidence, lost)


_OF_TORCH = ("forward", "recompute", "backward", "optimizer")


def _sleeping(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    main = facts.main
    if main is None or main.waits_for_work_share is None or is_gpu_unknown(facts):
        return None
    asleep = 1.0 - main.cpu_share - (main.queued_share or 0.0) - main.waits_for_work_share - main.disk_share
    busy = gpu_busy(facts)
    lost = asleep if busy is None else min(asleep, 1.0 - busy)
    if lost < SLEEPING:
        return None
    text = (
        f"Starved: {percent(lost)} of the time the training thread itself sleeps in the kernel, as code does that "
        "reads from a network or sleeps. No loader worker does that for it."
    )
    return _made("starved", text, [*_of_main(facts), *_of_workers(facts)], lost)


def _idle(facts: Facts, stacks: Stacks | None) -> AttachVerdict | None:
    uses = [*([facts.main] if facts.main is not None else []), *(worker.use for worker in facts.workers)]
    is_queued = any((use.queued_share or 0.0) >= QUEUED for use in uses)
    if (
        is_queued
        or is_gpu_unknown(facts)
        or facts.cpus.own + facts.cpus.children >= IDLE
        or (gpu_busy(facts) or 0.0) >= IDLE
    ):
        return None
    text = "Nothing of it runs: it sleeps, or waits for something outside: another rank, the network, input."
    return _made("idle", text, list(_seen(facts)))


def _of_window(window: AttachedWindow, facts: Facts) -> AttachVerdict:
    """What most of a step is, with the line; a thread that has no CPU tells nothing of its phases."""
    measured = window.window
    steps = f"{measured.steps} steps of {step_time(measured.step_ms)}"
    seen = [steps, *_of_workers(facts), *_of_cpus(facts), *_of_gpus(facts)]
    queued = queued_share(window)
    if queued is not None and queued >= WAITING:
        text = f"Short of CPUs: for {percent(queued)} of each step the training thread is ready to run and gets no CPU."
        return _made("queued", text, seen, queued)
    parts: dict[str, float] = {}
    for phase, ms in measured.phases_ms.items():
        part = "compute" if phase in _OF_TORCH else phase
        parts[part] = parts.get(part, 0.0) + ms
    largest = max(parts, key=lambda part: parts[part])
    of_step = parts[largest] / measured.step_ms
    share = percent(of_step)
    place = f", mostly in {measured.places[largest]}" if largest in measured.places else ""
    if of_step < LARGEST:
        rows = sorted(parts, key=lambda one: -parts[one])[:3]
        named = ", ".join(f"{PHASES.get(one, one)} {percent(parts[one] / measured.step_ms)}" for one in rows)
        return _made("cannot_tell", f"No part of a step is most of it: {named}.", seen)
    if largest == "data_wait":
        return _made(
            "input_bound", f"Input-bound: {share} of each step is spent waiting for data{place}.", seen, of_step
        )
    if largest == "compute":
        text = f"Compute-bound: {share} of each step is forward, backward and optimizer."
        return _made("compute_bound", text, seen)
    what = "the script's own code" if largest == "other" else PHASES.get(largest, largest)
    return _made("phase", f"The largest part of each step, {share}, is {what}{place}.", seen)


_OUTSIDE: tuple[Case, ...] = (_stopped, _swapping, _throttled, _gpu_throttled)
_CASES: tuple[Case, ...] = (
    *(
        _passing,
        _gpu_busy,
        _idle,
        _launcher,
        _storage,
        _starved,
        _data_wait,
        _queued,
        _cpu_busy,
        _one_thread,
        _sleeping,
    ),
)


def _made(kind: VerdictKind, text: str, evidence: list[str], lost_share: float | None = None) -> AttachVerdict:
    return AttachVerdict(kind, text, tuple(evidence), lost_share)


def _seen(facts: Facts) -> Iterator[str]:
    for part in (_of_main, _of_workers, _of_cpus, _of_gpus):
        yield from part(facts)


def _of_main(facts: Facts) -> Iterator[str]:
    if facts.main is None:
        return
    yield f"main thread {percent(facts.main.cpu_share)} of a core"
    if facts.main.waits_for_work_share is not None:
        yield f"it waits for other threads or processes {percent(facts.main.waits_for_work_share)} of the time"


def _of_workers(facts: Facts) -> Iterator[str]:
    workers = working(facts) or facts.workers
    if not workers:
        return
    cpus = sum(worker.cpus for worker in workers)
    busy = workers_busy(facts)
    at_work = f", at work {percent(busy)} of the time" if busy is not None else ""
    are = "loader workers" if len(workers) > 1 else "loader worker"
    yield f"{len(workers)} {are} with {number(cpus)} CPUs{at_work}"
    queued = [share for worker in workers if (share := worker.use.queued_share) is not None]
    if queued and sum(queued) >= QUEUED * len(queued):
        mean = percent(sum(queued) / len(queued))
        yield f"for {mean} of the time a worker is ready and gets no CPU: more workers would not help"


def _of_cpus(facts: Facts) -> Iterator[str]:
    cpus = facts.cpus
    of = f" of {number(cpus.allowed)} that it may use" if cpus.allowed is not None else ""
    yield f"{number(cpus.own)} CPUs of its own and {number(cpus.children)} of its children{of}"
    if cpus.of_others is not None and cpus.of_others >= NOTICEABLE_CPUS:
        yield f"other processes of the machine use {number(cpus.of_others)} CPUs"


def _of_gpus(facts: Facts) -> Iterator[str]:
    for gpu in facts.gpus:
        if gpu.busy_share is not None:
            yield f"{gpu.name or 'GPU'}: busy in {percent(gpu.busy_share)} of NVML's periods"
        if gpu.other_processes:
            yield f"{gpu.other_processes} other processes compute on it"


def _of_storage(facts: Facts) -> Iterator[str]:
    if facts.storage.read_bytes_per_s is not None:
        yield f"{size(facts.storage.read_bytes_per_s)} a second from storage"
