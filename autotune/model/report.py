"""The report: everything that an output may print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct, field

from autotune.model.evidence import Evidence, Value
from autotune.model.finding import Evaluation, Recommendation
from autotune.model.outlook import Outlook
from autotune.model.window_detail import WindowDetail

RANK_WAIT = "rank_wait"
COMMUNICATION = "communication"

PHASES = (
    "data_wait",
    "h2d",
    "forward",
    "recompute",
    "backward",
    RANK_WAIT,
    COMMUNICATION,
    "optimizer",
    "checkpoint",
    "evaluation",
    "logging",
    "other",
)
"""The phases of a step, in the order of time. "recompute" is activation checkpointing's second forward,
"rank_wait" what a rank waits in collectives for a later one; where ranks were not compared, or wait little, there is
none. "communication" is the rest of the collectives that the script, or a library, issues outside of DDP."""

STEPS_WITHOUT_LENGTH = 1000
"""Steps that times are given for when the length of the run is unknown."""


Outcome = Literal[
    "completed",
    "ended_early",
    "raised",
    "out_of_memory",
    "killed_for_memory",
    "killed",
    "timed_out",
    "no_step",
    "interrupted",
]
"""How a run can end; "killed_for_memory" is the cgroup's or the kernel's doing, "killed" anybody else's."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Frame(Struct, frozen=True):
    """A place in the user's or a library's code and its share of the step (0..1), from the sampler."""

    file: str
    line: int
    function: str
    share: float
    busy_cpus: float | None = None
    """CPUs that the process keeps busy there on average; None when unknown."""


class Caller(Struct, frozen=True):
    """A line of the user's, and the part of a callee's time that it spends in calls from there, in 0..1."""

    file: str
    line: int
    share: float


class RepeatedCall(Struct, frozen=True):
    """A line of the user's that leads to a costly one, and runs `runs` times for each batch."""

    file: str
    line: int
    runs: float


LEAST_HOT = 0.1
"""Of a step: a line that costs less is not what to look at."""


class HotLine(Struct, frozen=True, kw_only=True):
    """A statement of the user's code (lines `line` to `end_line`) and what it costs in a step.

    Where the user's functions call each other, time belongs to the innermost one's line; the time of the backward pass
    to the line of the forward pass that made its nodes, where that is known, and else to the call of backward.
    """

    file: str
    line: int
    end_line: int
    function: str
    share: float
    """Of the step, in 0..1: all of `phase_ms`, and the backward pass."""

    phase_ms: Mapping[str, float]
    """Milliseconds per step in each phase, without `backward_ms`."""

    backward_ms: float = 0.0
    """Of the backward pass of the operations that it started."""

    device_ms: float | None = None
    """Of both, what the CUDA device works for it; the rest is time in which the device waits. None where kernels are
    not known by line."""

    runs: float | None = None
    """How often it runs in a step; None where the steps were not traced, as the counts and shares that follow."""

    inner_runs: float | None = None
    """How often the body of its comprehension runs in a step."""

    ops: float | None = None
    """Operations of torch that it starts in a step, the outermost ones."""

    op_us: float | None = None
    """Mean time of one of these operations."""

    torch_share: float | None = None
    """Of its time without the backward pass, the part inside operations of torch."""

    double_share: float | None = None
    """Of the time of its operations, those that read float64."""

    cpu_share: float | None = None
    """Of the host's time in its operations, those of tensors on the CPU in a training on CUDA."""

    operations: tuple[tuple[str, float], ...] = ()
    """(name, share) of the operations that take most by themselves, of the time of all of them."""

    callee: str = ""
    """The library function that it spends most time in, "module.name"; "" for none."""

    modules: tuple[str, ...] = ()
    """The modules that run at it, those of a list as one ("layers.*.norm")."""

    callers: tuple[Caller, ...] = ()
    """The user's lines that its function is called from, that with the most of its time first; without the backward
    pass."""

    repeated_by: RepeatedCall | None = None
    """The outermost line that leads to it several times for a batch; None where none does, or most comes otherwise."""

    @property
    def calls_backward(self) -> bool:
        """Whether most of it is backward passes that it called, and whose nodes have no line."""
        return self.phase_ms.get("backward", 0.0) > sum(self.phase_ms.values()) / 2 + self.backward_ms


class HotFunction(Struct, frozen=True):
    """A function of the user's beside the models, the line that leads to it, and its share of the step, in 0..1.

    The line is the function's first one where none is known to lead to it. The share is inclusive: what it calls, and
    the backward pass of its operations.
    """

    file: str
    line: int
    function: str
    share: float


class HotModule(Struct, frozen=True):
    """A module of the model, or all of a list as one ("layers.*.norm"), and its share of the step, in 0..1.

    The share is what no module inside it has, with the backward pass of its operations.
    """

    name: str
    type: str
    share: float


class LineTable(Struct, frozen=True):
    """Where the time of a step goes, by lines and by modules, most first.

    `known_share` is the part of the step at a line of the user's or in a module of the model; `ops` are the operations
    of torch in a step, and `op_us` is the mean time of one, None where none were recorded.
    """

    lines: tuple[HotLine, ...]
    modules: tuple[HotModule, ...]
    known_share: float
    ops: float | None = None
    op_us: float | None = None
    function: HotFunction | None = None
    """The costliest function beside the models; None where the hottest line costs as much."""

    @property
    def hottest(self) -> HotLine | None:
        """The line to look at: the first one, or the next that costs a tenth of the step where the first is a call
        of backward, which tells nothing of where its nodes were made."""
        rest = (line for line in self.lines if not line.calls_backward and line.share >= LEAST_HOT)
        first = self.lines[0] if self.lines else None
        return next(rest, first) if first is not None and first.calls_backward else first


class Step(Struct, frozen=True):
    """The measured window. Times in ms per optimizer step; `breakdown_ms` sums to `mean_ms`, unobserved is None.

    `samples_per_s`, `tokens_per_s` and `useful_tokens_per_s` are None when unknown. `other` names what fills the rest.
    `run_ms` is a step of the whole run, with saves and evaluations at their intervals and not as the window has them;
    None where nothing says how often they come, or how long one takes.
    """

    steps: int
    mean_ms: float
    median_ms: float
    p90_ms: float
    breakdown_ms: Mapping[str, float | None]
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    useful_tokens_per_s: float | None = None
    other: tuple[Frame, ...] = ()
    lines: LineTable | None = None
    """None without stack samples."""

    run_ms: float | None = None


class LateRank(Struct, frozen=True):
    """Where the last rank loses its time: `ms` more than the median rank in a step, most of it in `phase`, at `line`
    ("" when no stack sample shows it).
    """

    ms: float
    phase: str
    line: str


class Rank(Struct, frozen=True):
    """One rank, in ms per step of the window. None is unknown. `host` is the name of its machine, "" when unknown.

    `own_ms` is its own work, by phase in `phases_ms`: all of it, or (`own_is`) what comes before communication, where
    its waits are not measured. `collective_ms` is what the script's collectives cost, `averaging_ms` what DDP's adds to
    backward; neither has the waits. Tokens are of a mean batch, with and without padding.
    """

    rank: int
    step_ms: float
    own_ms: float
    own_is: Literal["whole", "before_communication"]
    phases_ms: Mapping[str, float]
    wait_ms: float | None = None
    collective_ms: float | None = None
    averaging_ms: float | None = None
    batch_tokens: float | None = None
    batch_useful_tokens: float | None = None
    late: LateRank | None = None
    """Of the rank with the most work of its own."""

    host: str = ""


class Collective(Struct, frozen=True):
    """Calls of torch.distributed from one line of rank 0: calls and ms per step, and how much of it is waiting (None:
    unknown).
    """

    name: str
    file: str
    line: int
    function: str
    calls: float
    ms: float
    wait_ms: float | None


IDLE = ("data_wait", "copy", "device", "sync", "host", "operator", "python", "save", "evaluation")
"""Why the device is idle: what the host did meanwhile. "copy": the device copied, and no kernel ran; "device": it went
from one queued kernel to the next; "sync": the host had waited for the device, and until its next launch; "host": it
did something else for a millisecond and more; "operator": it was in an operator of torch; "python": in none."""


LAUNCHING = ("operator", "python")
"""Of these: the host prepares the next launch."""


class IdlePart(Struct, frozen=True):
    """Idle time of the device, as a share of the profiled steps in 0..1. `name` is the operator, or the waiting call;
    `place` the user's function or line, "" where no stack tells it.
    """

    kind: str
    share: float
    name: str = ""
    place: str = ""


class KernelGroup(Struct, frozen=True):
    """Kernels of one kind: their part of all kernels' time in 0..1, and launches per step. `example` is the name of the
    one that takes most.
    """

    kind: str
    share: float
    per_step: float
    example: str


class DeviceCopies(Struct, frozen=True):
    """Copies of one kind, e.g. "HtoD (Pageable -> Device)": per step."""

    kind: str
    per_step: float
    ms: float


class DeviceSync(Struct, frozen=True):
    """Calls that wait for the device, by the operator that makes them ("" for the script's own call): per step."""

    name: str
    operator: str
    place: str
    per_step: float
    ms: float


class DeviceCollective(Struct, frozen=True):
    """Kernels of one collective ("all-reduce"): of the step, the share in which they ran while no other kernel did."""

    kind: str
    exposed_share: float


class DeviceProfile(Struct, frozen=True):
    """What the device did in whole steps under a profiler, which slows the host: idle shares are upper bounds.

    Shares are of the profiled step, in 0..1; communication is that of collectives, `exposed_share` where no other
    kernel ran.
    """

    rank: int
    steps: int
    step_ms: float
    busy_share: float
    communication_share: float
    exposed_share: float
    collectives: tuple[DeviceCollective, ...]
    """That with the largest share first. Two at once count for both, so they may add up to more than the whole."""

    kernels_per_step: float
    mean_kernel_us: float | None
    streams: int
    idle: tuple[IdlePart, ...]
    """The largest first; parts of one kind add up to its whole."""

    kernels: tuple[KernelGroup, ...]
    copies: tuple[DeviceCopies, ...]
    syncs: tuple[DeviceSync, ...]


class StartUpPart(Struct, frozen=True):
    """One thing that the process did until its first step (from catalogue/startup.toml). `of` is an imported package.

    `cpu_s` is of all threads of the process, None where that was not sampled. The place is the user's line where most
    of it is, "" and 0 where there is none. `within` is what took most of it (packages, waits), with seconds;
    `num_processes` and `reads_cache` are of a map of datasets.
    """

    cause: str
    seconds: float
    cpu_s: float | None = None
    of: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    within: tuple[tuple[str, float], ...] = ()
    num_processes: int | None = None
    reads_cache: bool | None = None


class CellLines(Struct, frozen=True):
    """The notebook that was run: for each line of the script that its cells make the line of the file, the cell, and
    the line in the cell."""

    file: str
    lines: tuple[tuple[int, int, int, int], ...]


class MeasuredRun(Struct, frozen=True, forbid_unknown_fields=True):
    """What the measurement itself was: times in seconds, sizes in bytes."""

    command: tuple[str, ...]
    outcome: Outcome
    python: str = ""
    """The script's interpreter."""

    python_from: str = ""
    """How the interpreter was chosen."""

    wall_s: float | None = None
    startup_s: float | None = None
    warmup_steps: int | None = None
    num_steps: int | None = None
    """Optimizer steps that ran, warm-up included; None when unknown."""

    planned_steps: int | None = None
    """None when the script's own length is unknown."""

    num_processes: int = 0
    kept_going: bool = False
    replayed: bool = False
    """What-if probes made the script train on stored batches after the window."""

    error: str = ""
    """The script's own: "ValueError: its message"."""

    overhead_share: float | None = None
    redirected: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    not_isolated: tuple[str, ...] = ()
    isolation: str = ""
    """The layer that held the script's writes: "kernel", "hooks", or "" with --keep-going and for a lone Recording."""

    isolation_why: str = ""
    """Why it was not the kernel."""

    escaped: tuple[str, ...] = ()
    """Files of the project that changed all the same."""

    not_covered: tuple[str, ...] = ()
    """Writable folders that the layer leaves out."""

    other_devices: tuple[str, ...] = ()
    """Folders whose redirected writes went to another file system."""

    cells: CellLines | None = None
    """Of a run of a notebook."""

    is_compared: bool = True
    """All files of the project were compared before and after; False where it has too many."""

    ended: tuple[str, ...] = ()
    """Programs that outlived the script."""

    traces: tuple[str, ...] = ()
    """The files that it was read from, and nothing was run."""

    job: str = ""
    """The folder in which several autotunes left what they recorded of one job; "" where one recorded all of it."""

    is_part: bool = False
    """Another autotune, that of rank 0, reports on the whole job."""

    notes: tuple[str, ...] = ()


class RunSummary(MeasuredRun, frozen=True, kw_only=True):
    """A measurement and the folder that it lies in."""

    folder: str


class Coverage(Struct, frozen=True):
    """The remarks of rules that passed, without repetition: what is right, and what would not help.

    `not_looked_at` has the topic of each rule that lacked a fact, with the reason.
    """

    right: tuple[str, ...] = ()
    useless: tuple[str, ...] = ()
    not_looked_at: tuple[tuple[str, str], ...] = ()


class Report(Struct, frozen=True):
    """One diagnosis. `machine` and `software` are fact names without their first part, e.g. machine["cpu_quota"]."""

    run: RunSummary
    machine: Mapping[str, Value]
    software: Mapping[str, str]
    step: Step | None
    evidence: Evidence
    evaluation: Evaluation
    recommendations: tuple[Recommendation, ...]
    startup: tuple[StartUpPart, ...] = ()
    """What the first rank did until its first step, the longest first; empty where nothing sampled it."""

    price_per_hour: float | None = None
    """USD per hour, given by the user; None leaves every cost out."""

    patch: str = ""
    """The patch file that `autotune apply` takes; "" when there is nothing to change."""

    diff: str = ""
    """What `apply` writes unasked, as a unified diff without the lines around the changed ones; "" for nothing."""

    name: str = "last"
    """What `report` and `apply` call its run."""

    calibration: str = ""
    """How often earlier predictions on this machine held, in words; "" before the first verified one."""

    outlook: Outlook = field(default_factory=Outlook)
    """Its memory, whether the changes pay, and what was asked for beside: restart or finish, other devices."""

    coverage: Coverage = field(default_factory=Coverage)
    """What is right, what would not help, and what could not be looked at."""

    ranks: tuple[Rank, ...] = ()
    """Each measured rank; nothing of one alone."""

    hosts: tuple[str, ...] = ()
    """Names of the machines that the recorded ranks ran on; empty where older Recordings do not tell."""

    missing_ranks: tuple[int, ...] = ()
    """Ranks of the job of which there is no Recording: nothing is known of them."""

    collectives: tuple[Collective, ...] = ()
    """The lines of rank 0 that call collectives, that with the most time first; nothing of one alone."""

    devices: tuple[DeviceProfile, ...] = ()
    """Of ranks whose device was profiled, by rank; of more than 16, of the first ones and the late one."""

    detail: WindowDetail = field(default_factory=WindowDetail)
    """Of the first rank."""

    @property
    def device(self) -> DeviceProfile | None:
        """Of the first rank."""
        return self.devices[0] if self.devices else None

    @property
    def num_steps_run(self) -> int | None:
        """Optimizer steps that ran, warm-up included; None when that is unknown."""
        if self.run.num_steps is not None:
            return self.run.num_steps
        if self.step is None or self.run.warmup_steps is None:
            return None
        return self.run.warmup_steps + self.step.steps

    @property
    def planned_s(self) -> float | None:
        """Seconds of the planned run as it is; None where its length, or a step of the whole of it, is unknown."""
        if not self.run.planned_steps or self.step is None or self.step.run_ms is None:
            return None
        return self.run.planned_steps * self.step.run_ms / 1000
