"""What a verification found: two sides of a change, measured in fresh processes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from autotune.model.finding import Gain
from autotune.model.patch import PatchChange

BEFORE, AFTER = "before", "after"
SIDES = (BEFORE, AFTER)


class Verdict(StrEnum):
    """What may be said of the step's time."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no_difference"
    CANNOT_TELL = "cannot_tell"


class Clock(StrEnum):
    """What the times of the steps are: time that passed, CPU time of the training thread, or what the loader's workers
    need of CPU time for the batches of a step."""

    WALL = "wall"
    CPU = "cpu"
    LOADER = "loader"


class LossVerdict(StrEnum):
    """What may be said of the losses; NOT_COMPARED is no pass."""

    IDENTICAL = "identical"
    CLOSE = "close"
    ALIKE = "alike"
    DIFFERENT = "different"
    NOT_COMPARED = "not_compared"


class RunResult(Struct, frozen=True):
    """One run of one side. `step_ms` is the mean of the measured window, `samples` those of a step (None: unknown).

    `cpu_ms` is the CPU time of the training thread in the mean step; None where others work on it, too. `loader_ms` is
    the pace of its `workers`, by their CPU time; None where something else is slower. `asleep_share` of the window it
    waited for something other than a CPU (None: unknown). `cpus` is how many CPUs its processes kept busy in the
    window. `losses` are those of each step since the script began.
    `memory_bytes` is the peak, on the device where it trains on one.
    `read_bytes` came from storage in the window, and not from the page cache. `may_be_stopped` says that it is one
    process that trains on the CPU, so that it can be time-sliced; `wait_s` is about how long it waits at a time for
    something other than a CPU (0.0: hardly ever).
    Of the machine: `others_share` is the share of its CPUs that was busy with other work, `busy_share` with any;
    `throttled_share` of the time a CPU quota held the script back, `slowed_share` heat or power the GPU. None where the
    system does not tell. `epoch_steps` are those of an epoch, None where it has no known end. `escaped` are files of
    the project that the script changed all the same, `kernel_refusal` why the kernel did not isolate its writes
    ("" where it did).
    """

    side: str
    step_ms: float
    steps: int
    warmup: int
    wall_s: float
    samples: float | None = None
    cpu_ms: float | None = None
    loader_ms: float | None = None
    asleep_share: float | None = None
    workers: int = 0
    cpus: float | None = None
    losses: tuple[float | None, ...] = ()
    memory_bytes: int | None = None
    is_on_device: bool = False
    may_be_stopped: bool = False
    wait_s: float | None = None
    read_bytes: int | None = None
    others_share: float | None = None
    busy_share: float | None = None
    throttled_share: float | None = None
    slowed_share: float | None = None
    epoch_steps: int | None = None
    escaped: tuple[str, ...] = ()
    kernel_refusal: str = field(default="", name="unheld")

    @property
    def fixed_s(self) -> float:
        """Seconds that are no steps: start-up and the end."""
        return max(0.0, self.wall_s - (self.warmup + self.steps) * self.step_ms / 1000)


class TimeSlicing(Struct, frozen=True):
    """Seconds for which both runs go on before either measures, and the length of a slice."""

    together_s: float
    turn_s: float


class Schedule(Struct, frozen=True):
    """The runs to make, in order. `steps` are measured after `warmup` in each; `seconds` are expected.

    With `turns` the two runs of a pair are time-sliced.
    """

    order: tuple[str, ...]
    steps: int
    warmup: int
    seconds: float
    turns: TimeSlicing | None = None

    @property
    def pair_s(self) -> float:
        """Seconds of a pair."""
        return 2 * self.seconds / len(self.order)


class Estimate(Struct, frozen=True):
    """How many times faster the second side is.

    `low` to `high` is the interval of 95 %, over all looks at the pairs together. `spread` is the standard deviation of
    runs of the same files, as a share: that of the pairs' log ratios, by the square root of two.
    """

    speedup: float
    low: float
    high: float
    spread: float


class LossComparison(Struct, frozen=True):
    """How the losses of both sides compare over `steps` steps, and why so in words.

    Where they are too few to tell, `more_steps` may be enough.
    """

    sameness: LossVerdict
    steps: int
    why: str
    more_steps: int | None = None


class Memory(Struct, frozen=True):
    """Peak memory of both sides in bytes: medians over the runs, or None. `of` is "device" or "processes"."""

    of: str
    before: int | None
    after: int | None


class Resumed(StrEnum):
    """What became of one save and one resume; NOT_TRIED is no pass."""

    OK = "ok"
    FAILED = "failed"
    NOT_TRIED = "not_tried"


class Resume(Struct, frozen=True):
    """One save of the changed run, and one start that went on from it: how that went, and why in words."""

    result: Resumed
    why: str


class Verified(Struct, frozen=True):
    """One verification. `step_ms` are medians over the runs of each side.

    `against` names what was compared with what, `beside` what else could have been meant and how to ask for it;
    `predicted` is the gain that the diagnosis gave to the changes. `clock` is what the times are, and `worth` says in
    words what the interval holds for.
    """

    against: str
    changes: tuple[PatchChange, ...]
    verdict: Verdict
    why: str
    estimate: Estimate
    step_ms: tuple[float, float]
    is_per_sample: bool
    losses: LossComparison
    memory: Memory
    schedule: Schedule
    seconds: float
    resume: Resume = Resume(Resumed.NOT_TRIED, "save and resume once by hand before a long run")
    predicted: Gain | None = None
    notes: tuple[str, ...] = ()
    beside: str = ""
    clock: Clock = Clock.WALL
    worth: str = ""
    day: str = ""
    """When it was measured, "2026-11-26" (UTC)."""

    command: tuple[str, ...] = ()
    """What was measured, without what may be secret."""

    environment: str = ""
    """The machine and the software in one line; "" where unknown."""

    resume_command: str = ""
    """The command that adds pairs to this verification, as the report prints it."""

    apply_command: str = ""
    """The command that shows the edits of the second side; "" where they are in the files, or there are none."""

    undo_command: str = ""
    """The command that takes the edits of the second side back; "" where they are not in the files."""
