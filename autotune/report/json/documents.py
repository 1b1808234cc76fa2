"""The objects that `--format json` writes, schema 1: which keys they have, and what each says.

`tests/schemas.py` makes the JSON Schemas beside this file from it. None is written as null: an unknown value,
never 0. Only the type checker and that script import this module.
"""

from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from autotune.model import attached
from autotune.model.evidence import Origin, Value
from autotune.model.finding import Basis
from autotune.model.outlook import Known, PromiseResult, RestartOption
from autotune.model.report import Outcome
from autotune.model.rule import Effect, Severity
from autotune.model.tuned import Outcome as TrialOutcome
from autotune.model.verified import Clock, LossVerdict, Resumed, Verdict
from autotune.model.watched import WatchedProcess

if TYPE_CHECKING:  # a version is a tuple until `dumps` makes text of it ("2.13.0")
    Written = Value
else:
    Written = bool | int | float | str

Settings = dict[str, Written]

Count = Annotated[int, Meta(ge=0)]
FromOne = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
NotEmpty = Annotated[list[str], Meta(min_length=1)]


class Tool(TypedDict):
    """The program that wrote the object."""

    name: Literal["autotune"]
    version: str


class Line(TypedDict):
    """A place in a file, to the line."""

    file: str
    line: FromOne
    end_line: NotRequired[FromOne]
    """Of a place of several lines, the last one."""

    cell: NotRequired[FromOne]
    """Of a place in a notebook, its cell; text cells count."""

    cell_line: NotRequired[FromOne]
    """The line in the cell."""


class Place(TypedDict):
    """A place in a file; the file is relative to root, lines and columns (characters) count from 1."""

    file: str
    line: FromOne
    column: FromOne | None
    end_line: FromOne | None
    """The last line of the call."""

    key: str | None
    """The path of a value in a config, or its flag in a command."""

    cell: NotRequired[FromOne]
    """Of a place in a notebook, its cell; text cells count."""

    cell_line: NotRequired[FromOne]
    """The line in the cell."""


class SettingValue(TypedDict):
    """What a setting was in the run, and where it was given."""

    value: Written | None
    origin: Origin
    location: Line | None
    trusted: bool


class RepeatedCall(TypedDict):
    """The outermost line of the user's that leads to a costly one several times for each batch."""

    file: str
    line: int
    runs: float | None
    """For each batch."""


class HottestLine(TypedDict):
    """The line of the user's that costs most of a step."""

    file: str
    line: int
    share: float | None
    repeated_by: RepeatedCall | None


class HottestFunction(TypedDict):
    """The function of the user's beside the models that costs most of a step, with all that it calls."""

    file: str
    line: int
    """The user's line that leads to it; its first one where none is known."""

    function: str
    share: float | None


class Bound(TypedDict):
    """What takes the largest part of a step."""

    bound: str
    share: float
    first: str | None
    """The rule whose change saves most."""

    hottest: HottestLine | None
    """Null without stack samples."""

    function: HottestFunction | None
    """Null where no function costs more than the hottest line."""


class Throughput(TypedDict):
    """Throughput of the window."""

    samples_per_s: float | None
    tokens_per_s: float | None
    useful_tokens_per_s: float | None


class BreakdownMs(TypedDict):
    """Means per step; they sum to mean_ms; an unobserved phase is null."""

    data_wait: float | None
    """The training loop waits for the next batch."""

    h2d: float | None
    """Copies to the device, as the host sees them."""

    forward: float | None
    """Forward passes."""

    recompute: float | None
    """Second forward inside backward: activation checkpointing; not part of backward."""

    backward: float | None
    """Backward passes without recompute."""

    rank_wait: float | None
    """Waits in collectives for the rank that comes last; null where none is late."""

    communication: float | None
    """Collectives that the script or a library issues, not DDP's own; where ranks were compared, without the waits."""

    optimizer: float | None
    """Optimizer updates."""

    checkpoint: float | None
    """Saves."""

    evaluation: float | None
    """Evaluation."""

    logging: float | None
    """Logging and trackers."""

    other: float | None
    """What no phase explains."""


class Operation(TypedDict):
    """An operation of torch, or a node of the backward pass."""

    name: str
    share: float | None
    """Of the time of all operations of the line."""


class Caller(TypedDict):
    """A line of the user's that calls a function, and its part of the time of a line in there."""

    file: str
    line: int
    share: float | None


class HotLine(TypedDict):
    """A statement of the user's code and what it costs in a step, without the user's functions that it calls."""

    file: str
    line: int
    end_line: int
    function: str
    share: float | None
    """Of the step, the backward pass included."""

    phase_ms: dict[str, float]
    """Milliseconds per step by phase, without backward_ms."""

    backward_ms: float | None
    """Of the backward pass of the operations that it started."""

    device_ms: float | None
    """Of both, what the CUDA device works for it; null where that is not known."""

    runs: float | None
    """In a step; null where the steps were not traced, as all that follows."""

    operations: float | None
    """Operations of torch that it starts in a step."""

    operation_us: float | None
    """Mean time of one."""

    torch_share: float | None
    """Of its time without the backward pass, the part inside operations of torch."""

    float64_share: float | None
    """Of the time of its operations, those that read float64."""

    cpu_share: float | None
    """Of the host's time in its operations, those of tensors on the CPU in a training on CUDA; null elsewhere."""

    most: list[Operation]
    """What takes most by itself."""

    callee: str | None
    """The library function that it spends most time in."""

    modules: list[str]
    """The modules that run at it; * stands for the numbers of a list."""

    callers: list[Caller]
    """The user's lines that its function is called from, that with the most of its time first."""

    repeated_by: RepeatedCall | None


class HotModule(TypedDict):
    """A module of the model, or all of a list, and its share of the step without the modules inside it."""

    name: str
    type: str
    share: float | None


class Step(TypedDict):
    """The measured window, per optimizer step."""

    mean_ms: float | None
    """Window wall time / optimizer steps."""

    median_ms: float | None
    p90_ms: float | None
    steps: FromOne
    throughput: Throughput
    compute_ms: float | None
    """A step if only compute were left: on a device its kernels without exposed communication, on CPUs forward,
    recompute, backward and optimizer; null where that is unknown."""

    breakdown_ms: BreakdownMs
    """Means per step; they sum to mean_ms; an unobserved phase is null."""

    lines: list[HotLine] | None
    """Most costly first; null without stack samples, as the next two."""

    modules: list[HotModule] | None
    known_share: float | None
    """Of the step, what is at a line of the user's or in a module."""

    operations: float | None
    """Operations of torch in a step; null where none were recorded."""

    operation_us: float | None
    """Mean time of one."""


class LateRank(TypedDict):
    """Where the last rank loses its time, against the median rank."""

    ms: float
    phase: str
    line: str | None
    """"work (train.py:3)": what its stack samples show there."""


class Rank(TypedDict):
    """One rank. Times per step of the window; null is unknown."""

    rank: Count
    step_ms: float
    own_ms: float
    """Its own work."""

    own_is: Literal["whole", "before_communication"]
    """Whether own_ms is all of its work, or what comes before communication, where its waits are not measured."""

    phases_ms: dict[str, float]
    """own_ms by phase."""

    wait_ms: float | None
    """Waits in collectives for later ranks."""

    collective_ms: float | None
    """The script's own collectives, without the waits: at most what they cost."""

    averaging_ms: float | None
    """What DDP's averaging of gradients adds to backward, without the waits, as DDP times it."""

    batch_tokens: float | None
    """Of a mean batch, padding included."""

    batch_useful_tokens: float | None
    """Of a mean batch, without padding."""

    late: LateRank | None
    """Of the rank with the most work of its own; null of the others."""

    host: str | None
    """The name of its machine."""


class Collective(TypedDict):
    """Calls of torch.distributed from one line, in rank 0."""

    name: str
    """The function, or "wait" of what one returned."""

    file: str
    line: Count
    function: str
    calls_per_step: float
    ms: float
    """Per step, waits included."""

    wait_ms: float | None
    """How much of it is waiting for later ranks."""


class Change(TypedDict):
    """A setting to change, in canonical names."""

    setting: str
    old: Written | None
    new: Written | None
    effect: Effect


class Gain(TypedDict):
    """The gain of a change."""

    speedup: float | None
    """Old step time / new step time."""

    low: float | None
    high: float | None
    saved_s: float | None
    """Over the planned run; null when its length is unknown."""

    basis: Basis
    """`measured` only when the window has at least 10 steps; modelled is unverified; bound: at most high."""


class Install(TypedDict):
    """What the advice needs installed."""

    command: str | None
    """What to type; null unless a wheel is known to fit."""

    why: str


class Finding(TypedDict):
    """A rule that applies."""

    rule: str
    subject: str
    name: str
    severity: Severity
    confidence: str
    message: str
    location: Line | None
    changes: list[Change]
    gain: Gain | None
    install: Install | None
    """What the advice needs installed; nothing installs it."""

    script: str | None
    """A script that was generated for the advice; nothing runs it."""


class SkippedRule(TypedDict):
    """A rule that could not be decided, and the facts that it needs."""

    rule: str
    subject: str
    needs: NotEmpty


class Edit(Change):
    """A change with what a person needs to make it."""

    location: Line | None
    spelling: str | None
    note: str | None


class Recommendation(TypedDict):
    """Changes that belong together."""

    number: FromOne
    rules: NotEmpty
    effect: Effect
    changes: list[Edit]
    advice: list[str]
    gain: Gain | None
    after: Gain | None
    """What it adds to the numbers before it."""


class Run(TypedDict):
    """The measurement itself."""

    folder: str
    python: str | None
    python_from: str | None
    wall_s: float | None
    startup_s: float | None
    warmup_steps: int | None
    num_steps: int | None
    """Optimizer steps that ran, warm-up included."""

    planned_steps: int | None
    num_processes: Count
    kept_going: bool
    error: str | None
    redirected: list[str]
    blocked: list[str]
    not_isolated: list[str]
    isolation: Annotated[str, Meta(pattern="^(kernel|hooks)$")] | None
    """What held the script's writes; null: nothing had to, or it is not known."""

    isolation_why: str | None
    """Why it was not the kernel."""

    escaped: list[str]
    """Files of the project that changed during the run."""

    not_covered: list[str]
    """Writable folders that the layer leaves out."""

    other_devices: list[str]
    """Folders whose redirected writes went to another file system, and may take another time there."""

    is_compared: bool
    """All files of the project were compared before and after; false where it has too many."""

    ended: list[str]
    """Programs that outlived the script, and were ended."""

    traces: list[str]
    """The files that it was read from, and nothing was run; else empty."""

    job: str | None
    """The folder in which the autotunes of several nodes left what they recorded of one job."""

    is_part: bool
    """The autotune of rank 0 reports on the whole job; this report is of the ranks of one node."""

    notes: list[str]
    price_per_hour: float | None
    """USD per hour, as given."""


class Within(TypedDict):
    """What takes a part of it: a package, or the waits of a request before another try."""

    what: str
    seconds: float


class StartUpPart(TypedDict):
    """One thing that the process did until its first step."""

    cause: str
    """import, code (the script's own), map (of datasets), dataset, download, weights, model, device, compile, ranks,
    workers, batch, evaluation, save, step (the first one), library, python, launch (before the process), probe
    (autotune's own), rest."""

    seconds: float
    cpu_s: float | None
    """Of all threads of the process in that time; null where it was not sampled."""

    package: str | None
    """What is imported."""

    place: Line | None
    """The line of the script where most of it is."""

    function: str | None
    within: list[Within]
    """What takes most of it, the longest first."""

    num_processes: int | None
    """Of a map."""

    reads_cache: bool | None
    """Whether a map may take its result from the cache of an earlier start."""


class Part(TypedDict):
    """One part of the memory; `how` says why it is unknown, or where it is from."""

    name: str
    num_bytes: int | None
    basis: Known | None
    how: str


class MemoryBudget(TypedDict):
    """The memory at the peak of the window."""

    parts: list[Part]
    peak_bytes: int
    limit_bytes: int | None
    on_device: bool
    """Of a GPU; else of the training process."""

    held_bytes: int | None
    """The most that was in use between two steps; null where it is not known."""


class Payback(TypedDict):
    """Whether the changes that leave training as it is pay."""

    numbers: list[int]
    """The recommendations that it is of: training unchanged."""

    basis: Basis
    """What their gain rests on, the weakest of them; of a bound only the best case is told."""

    planned_s: float | None
    """With saves and evaluations at their intervals; null where these or the length are unknown."""

    saved_s: float | None
    low_s: float | None
    high_s: float | None
    startup_s: float | None
    steps: int | None
    """After which restarting a job that runs has won back its start-up; null is never, or unknown."""

    low_steps: int | None
    high_steps: int | None
    least_s: float | None
    """Saving less is not worth it."""

    worth_it: bool | None
    """Whether it may save enough; null where the time of the run is unknown."""


class Course(TypedDict):
    """One way for a running job to go on."""

    way: RestartOption
    seconds: float
    low_s: float
    high_s: float
    repeated_steps: int
    wait_steps: int


class Restart(TypedDict):
    """Restart a running job, or let it end."""

    step: int | None
    total: int | None
    step_s: float | None
    courses: list[Course]
    choice: RestartOption | None
    """Null where the gain's interval holds more than one answer."""

    least_s: float
    """What a restart has to save."""

    numbers: list[int]
    basis: Basis | None
    """What their gain rests on; null without one."""

    notes: list[str]


class Cell(TypedDict):
    """A value of the options table, from low to high."""

    low: float
    high: float
    basis: Known


class SetupRow(TypedDict):
    """One row of the options table."""

    name: str
    num_devices: int
    memory: Cell | None
    """Bytes of each device."""

    exposed: Cell | None
    """Communication that training waits for, ms per step."""

    step: Cell | None
    """In ms."""

    usd_per_hour: float | None
    effort: str
    risk: str
    fits: bool | None
    limit_bytes: int | None
    """What each device has; null is not known."""

    run_s: list[float]
    cost_usd: list[float | None]


class Options(TypedDict):
    """Other devices."""

    steps: int
    rows: list[SetupRow]
    assumptions: list[str]
    why_not: str | None


class Promise(TypedDict):
    """What a progress line says of the step that was expected after the changes."""

    result: PromiseResult
    """As fast as expected; slower; as it was before any change; the line does not tell, or is of another run."""

    numbers: list[int]
    """The recommendations that it is expected after."""

    shown_ms: float | None
    expected_ms: float
    limit_ms: float
    """Beyond it the step is not as expected."""

    now_ms: float
    """Before the changes."""


class Outlook(TypedDict):
    """What lies ahead of the run."""

    memory: MemoryBudget | None
    """The parts of the peak, headroom last."""

    payback: Payback | None
    """Null without a gain of what leaves training unchanged."""

    promise: Promise | None
    """Whether a running job is as fast as expected; null unless --at was given, and where nothing was promised."""

    restart: Restart | None
    """Restart a running job, or let it end; null unless --at was given, and where its line is as fast as expected."""

    options: Options | None
    """Other devices; null unless --options or --on was given."""


class ExpectedStep(TypedDict):
    """An iteration of the user's own progress bar after a group of changes, those before it included."""

    numbers: list[int]
    """The recommendations that were made."""

    now_ms: float
    """Without saves and evaluations, as the bar shows it; as the others."""

    expected_ms: float
    low_ms: float
    high_ms: float
    basis: Basis
    limit_ms: float | None
    """Slower than that, diagnose again; null where nothing is promised."""

    why_not: str | None
    """Why nothing is promised."""

    after_steps: FromOne
    """When to look at the bar."""

    text: str
    """The same as the bar writes it."""


class NextCommand(TypedDict):
    """A command that leads on, and works where the one before was typed."""

    command: str
    why: str


class Overhead(TypedDict):
    """What the probe cost, as a share of the step."""

    share: float | None
    basis: Literal["measured"] | None


class DeviceIdle(TypedDict):
    """Idle time of the device, by what the host did meanwhile."""

    kind: Literal["data_wait", "copy", "device", "sync", "host", "operator", "python", "save", "evaluation"]
    """sync: the host had waited for the device; host: it did something else for a millisecond and more; operator: it
    was in an operator of torch; python: in none."""

    share: float | None
    name: str | None
    """The operator, or the call that waited."""

    place: str | None
    """The user's function or line, or a range of record_function."""


class DeviceKernels(TypedDict):
    """Kernels of one kind."""

    kind: str
    share: float | None
    """Of all kernels' time."""

    per_step: float | None
    example: str
    """The kernel of this kind that takes most time."""


class DeviceCopies(TypedDict):
    """Copies of one kind."""

    kind: str
    per_step: float | None
    ms: float | None
    """Per step."""


class DeviceSync(TypedDict):
    """Calls that wait for the device."""

    name: str
    operator: str | None
    """The innermost operator of torch that made the call."""

    place: str | None
    per_step: float | None
    ms: float | None
    """Per step."""


class DeviceCollective(TypedDict):
    """Kernels of one collective."""

    kind: str
    """ "all-reduce", "all-gather", "reduce-scatter", "all-to-all" ..., or "other"."""

    exposed_share: float | None
    """Of the step: they ran while no kernel that computes did."""


class DeviceProfile(TypedDict):
    """Whole steps under a profiler, which slows the host: idle shares are upper bounds. Shares are of these steps."""

    rank: Count
    steps: Count
    step_ms: float | None
    busy_share: float | None
    communication_share: float | None
    exposed_share: float | None
    """Communication while no other kernel ran."""

    collectives: list[DeviceCollective]
    """The largest first."""

    kernels_per_step: float | None
    mean_kernel_us: float | None
    streams: Count
    idle: list[DeviceIdle]
    """The largest first."""

    kernels: list[DeviceKernels]
    copies: list[DeviceCopies]
    syncs: list[DeviceSync]


class ReportDocument(TypedDict):
    """One diagnosis. Times in _ms and _s, shares in 0..1, sizes in bytes.

    A name that belongs to the run, or to the main subject of its kind (#train, else #0, else the only one), is written
    bare; another subject's is name@subject.
    """

    schema: Literal[1]
    tool: Tool
    command: list[str]
    outcome: Outcome
    machine: dict[str, Written | None]
    software: dict[str, str]
    settings: dict[str, SettingValue]
    verdict: Bound | None
    """"compute" or the phase that takes the largest part of a step; null without a step."""

    step: Step | None
    ranks: list[Rank]
    """Each measured rank of several."""

    hosts: list[str]
    """Names of the machines that the recorded ranks ran on; empty where older Recordings do not tell."""

    missing_ranks: list[Count]
    """Ranks of the job of which there is no Recording: nothing is known of them."""

    collectives: list[Collective]
    """Lines that issue collectives, that with the most time first."""

    devices: list[DeviceProfile]
    """What the device of each rank did in profiled steps (of more than 16 ranks, of the first ones and the late one);
    empty where none was profiled."""

    facts: dict[str, Written | None]
    findings: list[Finding]
    skipped: list[SkippedRule]
    passed: Annotated[list[str], Meta(extra_json_schema={"uniqueItems": True})]
    """Rules that had nothing to say about any of their subjects."""

    recommendations: list[Recommendation]
    run: Run
    startup: list[StartUpPart]
    """Of the first rank, the longest first; empty where nothing sampled it."""

    outlook: Outlook
    """What lies ahead of the run."""

    expected: list[ExpectedStep]
    """What the user's own progress bar should show after each group of changes."""

    overhead: Overhead
    patch: str | None
    """The patch file, null when none was written."""

    diff: str | None
    """What `autotune apply` writes unasked, without the lines around the changed ones."""

    next: list[NextCommand]


class Bundle(TypedDict):
    """Files that make one training run."""

    name: str
    """Its main file."""

    files: list[str]
    dialects: list[str]
    num_findings: Count
    num_skipped: Count
    num_passed: Count
    """Rules that were decided and have nothing to say."""

    num_silenced: Count


class PlacedEdit(Change):
    """A change with its exact place."""

    location: Place | None
    spelling: str | None
    """As the user's framework writes it; with a = in it, the whole text to write."""

    note: str | None


class FileFinding(TypedDict):
    """A rule that applies to the files, with every key that it has in the report of diagnose."""

    rule: str
    subject: str
    name: str
    severity: Severity
    confidence: str
    message: str
    location: Place | None
    changes: list[PlacedEdit]
    gain: None
    """Files alone predict no gain."""

    install: None
    """Files alone do not tell which wheel fits."""

    script: None
    """Files alone generate no script."""

    advice: list[str]
    """What only a person can do."""

    places: list[Place]
    """Every place of what the rule read."""

    bundle: str


class FileSkipped(SkippedRule):
    """A rule that needs a run."""

    bundle: str


class SilencedFinding(FileFinding):
    """A finding that is left out of the report; `by` says why."""

    by: str
    """What silences it."""

    reason: str | None


class ReadNote(TypedDict):
    """A file, or a part of it, that was not read."""

    where: str
    why: str
    is_error: bool
    """The file is broken, or too complex."""

    is_bug: bool
    """A mistake of autotune kept the file from being read; the exit code is 4."""


class GateResult(TypedDict):
    """A limit on a fact of a recorded profile."""

    fact: str
    value: float | None
    limit: float | None
    holds: bool
    why: str


class CheckDocument(TypedDict):
    """One check."""

    schema: Literal[1]
    tool: Tool
    root: str
    """The folder that paths are relative to."""

    fails: bool
    """Whether the command exits with 1."""

    fail_on: Severity | None
    """The mildest severity that fails; null: none does."""

    num_files: Count
    """Files that were looked at."""

    num_rules: Count
    """Rules that were asked."""

    bundles: list[Bundle]
    """Files that make one training run."""

    findings: list[FileFinding]
    """The gravest first."""

    skipped: list[FileSkipped]
    """What needs a run."""

    silenced: list[SilencedFinding]
    notes: list[ReadNote]
    """What was not read."""

    gates: list[GateResult]
    """Limits on a recorded profile (--profile)."""

    next: list[NextCommand]


class SidesMs(TypedDict):
    """Medians over the runs of each side."""

    before: float
    after: float


class PeakMemory(TypedDict):
    """The peak of each side."""

    before_bytes: int | None
    after_bytes: int | None


class ProvenGain(TypedDict):
    """The gain of the best over the user's own settings."""

    speedup: Positive
    low: Positive
    """With high, the 95 % interval."""

    high: Positive
    losses: LossVerdict
    """`not_compared` is no pass: measured.losses_why says why. `different` only where altering was allowed."""


class Proof(TypedDict):
    """The verdict of the confirmation of the best of the trials, whether it won or not."""

    verdict: Verdict
    why: str | None
    speedup: float
    low: float
    high: float
    step_ms: SidesMs
    losses: LossVerdict
    losses_why: str | None
    memory: PeakMemory
    starts: int
    changes: Settings
    notes: list[str]
    """What the confirmation leaves unknown, as the memory that the longest batch needs."""


class TrialResult(TypedDict):
    """One candidate, tried in a fresh process."""

    number: int
    changes: Settings
    outcome: TrialOutcome
    samples_per_s: float | None
    """Steps a second where samples are not known."""

    step_ms: float | None
    memory_bytes: int | None
    forecast: float | None
    """The speedup that was expected of it."""

    wall_s: float
    error: str | None


class AxisPoints(TypedDict):
    """Settings that are searched together."""

    name: str
    points: list[Settings]
    current: int


class Reason(TypedDict):
    """A setting that was left out, and why."""

    setting: str
    why: str


class ByHandChange(TypedDict):
    """A change that no edit makes."""

    setting: str
    new: Written
    how: str
    gain: str


class BeyondSearch(TypedDict):
    """What the diagnosis recommends and the search did not try."""

    rules: list[str]
    message: str
    speedup: Positive
    basis: Basis


class TuneDocument(TypedDict):
    """One search: what was tried, and what won against the user's own settings."""

    schema: Literal[1]
    tool: Tool
    best: Settings
    """Every searched setting; the user's own where nothing won."""

    changes: Settings
    """Those of best that the user has otherwise."""

    verified: ProvenGain | None
    """Of the best, in turns with the user's own; null when nothing won."""

    measured: Proof | None
    """The verdict of the confirmation of the best of the trials, whether it won or not."""

    trials: list[TrialResult]
    space: list[AxisPoints]
    left_out: list[Reason]
    """Settings that were not searched."""

    dropped: list[Reason]
    """Changes of the fastest that were taken back."""

    by_hand: list[ByHandChange]
    """Changes that no edit makes, faster still in the trials: not confirmed, and not in the patch."""

    beyond: list[BeyondSearch]
    """What the diagnosis recommends of settings that were not searched; speedups are of the step before any change."""

    diagnosed: str | None
    """The run that `autotune report` shows."""

    stopped: str
    spent_s: float
    probes_s: float
    """Of them, the diagnosis with its probes."""

    patch: str | None
    """What apply takes: all of changes with their edits, or all of them by hand."""

    notes: list[str]
    side_effects: list[str]
    """What the runs changed in the user's files, and the layer that isolated their writes if the kernel did not."""

    next: list[NextCommand]


class LossesResult(TypedDict):
    """Whether both sides have the same losses."""

    result: LossVerdict
    """Bit-identical, within rounding, the same distribution, not the same, or not known: no pass."""

    steps: Count
    why: str
    more_steps: int | None
    """--loss-steps that may tell, where steps are too few."""


class SidesMemory(TypedDict):
    """The peak of each side, and whose memory it is."""

    of: Annotated[str, Meta(pattern="^(device|processes)$")]
    before_bytes: int | None
    after_bytes: int | None


class ResumeResult(TypedDict):
    """One save of the changed script and one start that went on from it."""

    result: Resumed
    """`not_tried` is no pass."""

    why: str


class PredictedGain(TypedDict):
    """The gain that was predicted."""

    speedup: float
    low: float
    high: float
    basis: Basis
    """`bound`: of a part of the changes only the most that they can bring is known."""


class VerifyDocument(TypedDict):
    """One verification: the same command before and after a change."""

    schema: Literal[1]
    tool: Tool
    against: str
    """What is compared, in words."""

    beside: str | None
    """What else could have been meant, in words: an applied patch, where another one is measured."""

    changes: list[Change]
    verdict: Verdict
    why: str | None
    speedup: Positive
    """Old step time by new step time."""

    low: Positive
    """With high, the 95 % interval of the speedup, of all looks at the pairs together."""

    high: Positive
    spread: float
    """Standard deviation of runs of the same files, as a share: of the pairs' log ratios, by the square root of two."""

    undisturbed: bool
    """Always false: the estimate rests on all steps of a window, and leaves none out as disturbed."""

    clock: Clock
    """What the times are: `wall` time; `cpu` time of the training thread, or CPU time that the `loader`'s workers need
    for a step, where a step consists of that."""

    worth: str | None
    """What the interval holds for, in words."""

    per_sample: bool
    """The speedup is of a sample: steps hold other numbers of them."""

    step_ms: SidesMs
    """Medians over the runs of each side."""

    losses: LossesResult
    memory: SidesMemory
    resume: ResumeResult
    """One save of the changed script and one start that went on from it."""

    predicted: PredictedGain | None
    starts: FromOne
    """Starts that count; two rehearsals came before them."""

    turn_s: float | None
    """The runs of a pair were time-sliced: one was paused for so many seconds while the other ran; null: one by one."""

    steps: FromOne
    warmup: FromOne
    seconds: float
    notes: list[str]
    next: list[NextCommand]


class FitRange(TypedDict):
    """A value from `low` to `high`, and what it rests on."""

    low: float
    high: float
    basis: Literal["measured", "modelled", "assumed"]


class FitSize(TypedDict):
    """One size of a micro-batch on a card."""

    micro_batch: int | None
    length: int | None
    """Tokens of a sequence; null: the model's inputs have no such dimension."""

    verdict: Literal["fits", "too close", "does not fit"]
    """`fits`: high_bytes is within the card's memory; `does not fit`: low_bytes is not; `too close`: between them."""

    low_bytes: int
    """With high_bytes the interval of what one card needs."""

    high_bytes: int
    margin_bytes: int
    """The card's memory minus high_bytes."""

    parts_bytes: dict[str, int]
    """Weights, gradients, optimizer state and activations at the peak, without what CUDA adds."""

    step_ms: FitRange | None
    """Null where it does not fit, or nothing is known of the time."""

    run_s: FitRange | None
    """Of `steps` steps."""

    cost_usd: FitRange | None
    """Of `steps` steps on all cards; null without a price."""


class FitCard(TypedDict):
    """The answer for one card."""

    card: str
    """Its name in autotune/catalogue/devices.toml."""

    title: str
    memory_bytes: int
    """What torch can use of it."""

    largest_micro_batch: int | None
    """The largest that fits, by a line through the sizes that were tried; 0 for none, null: only one size is known."""

    usd_per_hour: float | None
    """Of one card, as --price says: from a file, or the lowest of gpuhunt's catalogue."""

    price_date: str | None
    price_where: str | None
    """Where it was seen; of the catalogue the provider, and whether it is a spot machine."""

    sizes: list[FitSize]


class FitDocument(TypedDict):
    """Whether a training step fits into cards."""

    schema: Literal[1]
    tool: Tool
    command: list[str]
    basis: Literal["fake steps", "memory budget"]
    """`fake steps`: of the script, on tensors without memory; `memory budget`: that of a stored diagnosis."""

    fits: bool
    """Whether one size surely fits into one card: the exit code is 0 then, else 1."""

    devices: int
    """Cards that share a step."""

    sharding: Literal["ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp1"] | None
    steps: int
    """Optimizer steps that run_s and cost_usd are of."""

    cards: list[FitCard]
    why_not: str | None
    """Why nothing can be told; null where something can."""

    notes: list[str]
    seconds: float
    """What the answer took."""

    run: str | None
    """The stored run that keeps it: `autotune report RUN` prints it again."""

    next: list[NextCommand]


class WatchRow(TypedDict):
    """A process that is, or was, under watch."""

    folder: str
    """Of its run: all processes of a job are there."""

    life: Literal["running", "stale", "ended", "raised", "killed"]
    """`stale`: on another machine, and no sign for two minutes; `killed`: it is gone and did not say so."""

    seen_s: float
    """Seconds since its last sign."""

    idle_s: float | None
    """Since its last step, as far as it is known."""

    state: WatchedProcess
    """What it said of itself."""


class WatchDocument(TypedDict):
    """What `autotune watch DIR` found."""

    schema: Literal[1]
    tool: Tool
    processes: list[WatchRow]
    """By run, the newest last; in a run by rank."""

    unreadable: dict[str, str]
    """Files that are no state of a process, with the reason."""

    left_out: int
    """Runs that ended before those shown."""


class AttachDocument(TypedDict):
    """What `autotune diagnose --pid` says of a process that was already running."""

    schema: Literal[1]
    tool: Tool
    process: attached.AttachedProcess
    seconds: float
    """How long it was looked at, `samples` times."""

    samples: Count
    tiers: list[attached.Tier]
    """The ways to look into it: what each saw, or why it did not and the way round that."""

    verdict: attached.AttachVerdict
    main: attached.ThreadUse | None
    threads: list[attached.ThreadUse]
    """The busiest others of the process."""

    workers: list[attached.WorkerUse]
    cpus: attached.CpuUse
    memory: attached.HostMemory
    storage: attached.Storage
    gpus: list[attached.GpuUse]
    why_no_gpu: str
    """"" where there is one."""

    progress: attached.AttachedProgress | None
    why_no_progress: str
    restart: attached.AttachedRestart
    stacks: attached.Stacks | None
    window: attached.AttachedWindow | None
    others: list[attached.OtherProcess]
    """Other ranks and children, which this is not about."""

    notes: list[str]


class JobRow(TypedDict):
    """One diagnosed job on all of its ranks, as it was when it was measured."""

    run: str
    """The name of its folder."""

    folder: str
    began: str | None
    """UTC: "2026-11-24T09:30:00Z"."""

    command: list[str]
    """Without secrets."""

    outcome: Outcome
    hosts: list[str]
    """Of the recorded ranks; empty where older Recordings do not tell."""

    ranks: int | None
    """Processes of the job."""

    missing_ranks: list[Count]
    """Ranks without a Recording."""

    device: str | None
    step_ms: float | None
    """Mean time of an optimizer step."""

    planned_steps: int | None
    bound: str | None
    """What takes the largest part of a step."""

    bound_share: float | None
    wait_share: float | None
    """Of a step: training waits for data, or for a slower rank."""

    busy_share: float | None
    """Of a step: the device runs kernels; null where it was not profiled."""

    lost_share: float | None
    """Of the time of the measured steps: what all proposed changes of a known gain together would save, as predicted.
    Known without the length of the run; null where changes are proposed and no gain of theirs is known."""

    hours_lost: float | None
    """The same of the whole run, in hours; null also where the length of the run is not known, before its end or, with
    --keep-going, after it."""

    first_fix: str | None
    """The rule whose change saves most."""

    first_fix_name: str | None
    version: str
    """Of the autotune that measured it."""


class UnreadableRun(TypedDict):
    """A folder of a run that cannot be read."""

    folder: str
    reason: str


class RunsDocument(TypedDict):
    """The jobs that were diagnosed below some folders, the newest first."""

    schema: Literal[1]
    tool: Tool
    jobs: list[JobRow]
    unreadable: list[UnreadableRun]
