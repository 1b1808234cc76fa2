"""What `autotune diagnose --pid` found of a process that was already running. Unknown is None, shares are of 0 to 1."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from autotune.model.watched import WatchedWindow

TierName = Literal["counters", "stacks", "window"]
TierState = Literal["used", "refused", "not_asked"]

VerdictKind = Literal[
    "input_bound",
    "compute_bound",
    "phase",
    "stopped",
    "swapping",
    "throttled",
    "queued",
    "starved_by_workers",
    "starved",
    "storage",
    "gpu_busy",
    "gpu_throttled",
    "cpu_busy",
    "one_python_thread",
    "one_thread",
    "idle",
    "cannot_tell",
]

RestartAnswer = Literal["not_worth_it", "may_pay", "cannot_tell"]


class Tier(Struct, frozen=True):
    """A way to look into the process: whether it was used, what it saw, or why it did not, and the way round that."""

    tier: TierName
    state: TierState
    said: str
    to_do: str = ""


class AttachVerdict(Struct, frozen=True):
    """What bounds the process, in one sentence, and what was seen that says so."""

    kind: VerdictKind
    text: str
    evidence: tuple[str, ...]
    lost_share: float | None = None
    """Of the time, what is lost to it at most; None where it names nothing that has a share."""


class ThreadUse(Struct, frozen=True):
    """What a thread did while it was looked at.

    `cpu_share` of the wall time it ran; `queued_share`: it was ready and had no CPU; `disk_share`: it waited for
    storage (state D); `waits_for_work_share`: it slept in a poll or on a lock, as who waits for another thread or
    process does.
    """

    name: str
    cpu_share: float
    queued_share: float | None
    disk_share: float
    waits_for_work_share: float | None


class WorkerUse(Struct, frozen=True):
    """A worker of a DataLoader: its process, and the use of its main thread."""

    pid: int
    use: ThreadUse
    cpus: float
    """CPUs that all of its threads kept busy."""


class OtherProcess(Struct, frozen=True):
    """A process of the same job that this report is not of."""

    pid: int
    what: Literal["rank", "child"]
    name: str
    rank: int | None


class CpuUse(Struct, frozen=True):
    """CPUs: those that the process keeps busy, its children, and all others of the machine; what it may use at most, by
    what that is limited ("cgroup", "affinity", "host"), and the share of the time that a quota held it back."""

    own: float
    children: float
    of_others: float | None
    allowed: float | None
    limited_by: str | None
    throttled_share: float | None
    omp_threads: str | None
    """OMP_NUM_THREADS, as the process was started with it."""


class HostMemory(Struct, frozen=True):
    """Bytes of the host's memory. `left_bytes` may still be used below the limit that is nearest; `growth_bytes_per_s`
    is of the process alone, None in a look too short for it."""

    rss_bytes: int | None
    children_rss_bytes: int | None
    """A page that processes share counts for each."""

    swap_bytes: int | None
    limit_bytes: int | None
    left_bytes: int | None
    growth_bytes_per_s: float | None
    major_faults_per_s: float
    oom_kills: int | None
    """Processes of its control group that the kernel had killed for memory, since the group was made."""


class Storage(Struct, frozen=True):
    """Bytes per second of the process and its children, from and to storage and not the page cache."""

    read_bytes_per_s: float | None
    write_bytes_per_s: float | None


class GpuUse(Struct, frozen=True):
    """One GPU that the process uses. `busy_share`: of NVML's periods with any kernel running, by anybody.

    `is_certain` is False where NVML does not list the process, and several GPUs are visible to it: this is the first.
    `other_processes` compute on it, too.
    """

    name: str | None
    busy_share: float | None
    throttled_share: float | None
    slow_downs: tuple[str, ...]
    clock_mhz: float | None
    process_bytes: int | None
    used_bytes: int | None
    total_bytes: int | None
    other_processes: int | None
    is_certain: bool
    left_bytes: int | None
    """What is not used by anybody."""


class AttachedProgress(Struct, frozen=True):
    """Where the training is, by its own progress line. `step_s` is from two readings, or, where the line did not move
    by a step and more, the line's own rate (`is_own_rate`)."""

    source: str
    step: int
    total: int | None
    step_s: float | None
    is_own_rate: bool
    left_s: float | None
    """Seconds until its end; None where that is not known."""

    is_of_epoch: bool = False
    """Whether its bar may count the batches of one epoch only: then how much is left after that is not known."""


class AttachedRestart(Struct, frozen=True):
    """Whether a restart with a repair can pay. `left_s` is what the run has before it, `wasted_share` what of it is
    lost to what the verdict names, at most; `missing` says what the answer lacks."""

    answer: RestartAnswer
    left_s: float | None
    wasted_share: float | None
    saves_s: float | None
    """At most."""

    least_s: float | None
    """It has to save so much to be worth it."""

    missing: tuple[str, ...]


class StackLine(Struct, frozen=True):
    """A line of the user's that was seen in the training thread's stacks, in one phase."""

    file: str
    line: int
    function: str
    phase: str
    share: float


class Stacks(Struct, frozen=True):
    """Stack samples of the training thread: shares of the time by phase, as far as frames tell, and the user's lines
    that were innermost. `by` is the program that took them."""

    by: str
    samples: int
    phases: dict[str, float]
    lines: tuple[StackLine, ...]


class AttachedWindow(Struct, frozen=True):
    """A window of the probe in the process, and the file that it left."""

    window: WatchedWindow
    file: str


class AttachedProcess(Struct, frozen=True):
    """Who it is. `age_s` is since it was started."""

    pid: int
    script: str
    user: str
    is_own: bool
    python: str | None
    has_torch: bool | None
    age_s: float | None
    rank: int | None
    state: str


class Attached(Struct, frozen=True):
    """Everything that is said of one running process after `seconds` of looking at it."""

    process: AttachedProcess
    seconds: float
    samples: int
    tiers: tuple[Tier, ...]
    verdict: AttachVerdict
    main: ThreadUse | None
    threads: tuple[ThreadUse, ...]
    workers: tuple[WorkerUse, ...]
    cpus: CpuUse
    memory: HostMemory
    storage: Storage
    gpus: tuple[GpuUse, ...]
    why_no_gpu: str
    progress: AttachedProgress | None
    why_no_progress: str
    restart: AttachedRestart
    stacks: Stacks | None
    window: AttachedWindow | None
    others: tuple[OtherProcess, ...]
    notes: tuple[str, ...]
