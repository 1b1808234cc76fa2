"""The parts of a Recording that are objects of JSON: which keys they have, and what each says.

None is what was looked for and is not known; a key that may be missing was not looked for, or not by an older probe.
"""

# No `from __future__ import annotations`: NotRequired has to be seen when a class is made.

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

Scalar = bool | float | str | None
Argument = Scalar | list[Scalar]
Count = Annotated[int, Meta(ge=0)]
MOST_RANKS = 1_000_000
"""Of a job. Ranks are listed one by one: without a limit a number in somebody else's file takes all memory."""

WorldSize = Annotated[int, Meta(ge=1, le=MOST_RANKS)]


class Process(TypedDict):
    """The process, as torch.distributed's launcher numbers it."""

    pid: int
    ppid: int
    """The process that started it."""

    group: NotRequired[int]
    """The group of processes that it belongs to."""

    cpus: NotRequired[tuple[int, ...]]
    """The CPUs that the scheduler may give to it; not in older ones."""

    rank: int
    local_rank: int | None
    """None where no launcher set it."""

    world_size: WorldSize
    local_world_size: int | None
    """None where no launcher set it."""

    host: NotRequired[str]
    """The name of its machine; not in older ones."""

    elastic_id: NotRequired[str | None]
    """The id that its job has in torchrun; None where nobody gave it one."""

    argv: list[str]
    executable: str
    python: list[int]
    """The version of the interpreter."""

    main_file: str | None
    num_threads: int | None
    """Of torch's operators; None before torch was imported."""


class Error(TypedDict):
    """The exception that ended the script."""

    type: str
    message: str
    traceback: list[str]
    phase: str | None
    """The phase of the step that it was raised in."""


class RecordedDevice(TypedDict):
    """The device that the first model was seen on."""

    type: str
    """"cpu", "cuda" or "mps"."""

    index: int | None
    name: str | None
    capability: str | None
    """The compute capability, "9.0"."""


class CallSite(TypedDict):
    """A call site: the innermost frame in the user's files, else the library's frame."""

    file: str
    line: int
    function: str
    is_user: bool


class LoaderArguments(TypedDict):
    """The arguments of a DataLoader, by name."""

    num_workers: NotRequired[int]
    batch_size: NotRequired[int | None]
    prefetch_factor: NotRequired[int | None]
    pin_memory: NotRequired[bool]
    persistent_workers: NotRequired[bool]
    multiprocessing_context: NotRequired[str | None]


class Dataset(TypedDict):
    """The dataset of a loader."""

    type: str
    module: str
    length: int | None
    map_style: bool
    gives: NotRequired[str]
    """The format of samples of `datasets` ("torch", "numpy", "custom"), "python" where none is set."""


class Loader(TypedDict):
    """A DataLoader."""

    id: int
    site: CallSite
    arguments: LoaderArguments
    given: list[str]
    """The arguments that the call names."""

    dataset: Dataset
    sampler: str
    num_batches: int | None
    wraps: int | None
    """The id of the loader that it was rebuilt from (by accelerate); None for an original."""

    made_ns: NotRequired[int]
    """When it was constructed."""

    has_own_collate: NotRequired[bool]
    pad_id: int | None
    """The padding token of its tokenizer."""

    path: str | None
    """A file or folder that it reads."""

    max_length: int | None
    """Where its tokenizer truncates."""


class Optimizer(TypedDict):
    """An optimizer and its defaults."""

    id: int
    site: CallSite
    type: str
    module: str
    arguments: dict[str, Argument]
    num_params: int
    has_fused: bool | None
    """Whether its class has a fused implementation."""

    state_bytes: NotRequired[dict[str, int] | None]
    """Bytes of the state's tensors after the window, by type of device; None when they could not be read."""


class Model(TypedDict):
    """A root module."""

    id: int
    site: CallSite
    type: str
    module: str
    num_params: int
    num_trainable: int
    param_bytes: int
    dtypes: dict[str, int]
    """Number of parameters by dtype."""

    num_batchnorm: int
    checkpointing: bool
    """Whether activations are checkpointed."""

    compiled: bool
    parallel: str | None
    """The wrapper of parallel training, by its class."""

    model_type: NotRequired[str]
    """`config.model_type` of transformers, as the next keys."""

    attention: NotRequired[str | None]
    supports_sdpa: NotRequired[bool | None]
    output_attentions: NotRequired[bool]
    has_native_class: NotRequired[bool]
    is_remote_code: NotRequired[bool]


class FrameworkValues(TypedDict):
    """Fields of a framework's object, by name."""

    classes: NotRequired[list[str]]
    adds_losses: NotRequired[bool | None]
    """Whether the losses of a step's micro-batches are added up undivided; None where it is not known."""


class RecordedFramework(TypedDict):
    """An object that holds a framework's settings (TrainingArguments, Trainer, Accelerator ...)."""

    type: str
    module: str
    site: CallSite
    values: FrameworkValues


Frameworks = Mapping[str, RecordedFramework]
"""By `object` of a hook in catalogue/frameworks/."""


class HostCall(TypedDict):
    """A call site that makes the host wait for the device or for other ranks, or that frees memory."""

    kind: Literal["sync", "empty_cache", "gc", "collective"]
    name: NotRequired[str]
    """Of a collective: torch.distributed's function, or "wait" of what one returned."""

    bytes: NotRequired[int]
    """Of a collective: the sizes of the largest arguments of its calls, together."""

    site: CallSite
    count: int
    in_window: int
    total_ns: int
    is_library: bool


class TorchState(TypedDict):
    """Global state of torch in the window."""

    matmul_precision: NotRequired[str | None]
    autocast: NotRequired[str | None]
    cudnn_benchmark: NotRequired[bool]
    anomaly: NotRequired[bool]
    deterministic: NotRequired[bool]
    legacy_amp: NotRequired[bool]
    grad_scaler: NotRequired[bool]
    clips_scaled: NotRequired[bool]
    """Gradients are clipped before they are unscaled."""

    num_threads: NotRequired[int]
    profiled_steps: NotRequired[int]
    """Steps of the window under the script's own profiler."""

    averaged_backwards: NotRequired[int]
    """Backward passes of DDP models whose gradients were averaged over the processes."""


class InputOutput(TypedDict):
    """What this process and its workers read in the window."""

    read_bytes: int
    """From storage."""

    read_chars: int
    """By system calls, from the page cache too."""


class Compilation(TypedDict):
    """What dynamo did."""

    graph_breaks: int
    recompiles_at_start: int | None
    """Of the window."""

    recompiles_at_end: int | None
    compiling_steps: NotRequired[int]
    """Steps of the warm-up in which something was compiled."""


class KernelRow(TypedDict):
    """A kernel, copy or fill that one operator of torch launched ("" when unknown)."""

    name: str
    operator: str
    kind: Literal["kernel", "copy", "fill"]


class HostRow(TypedDict):
    """What the host did: an outermost operator of torch, a call that waits for the device, or a line of Python."""

    name: str
    """Of a line "train.py:12 (train)"."""

    operator: str
    """Of a call that waits, the innermost operator that made it; "" for none."""

    kind: Literal["operator", "sync", "line"]
    place: NotRequired[str]
    """The user's function or line that it was called from, as `name` of a line; absent where no stack tells it."""


class Kernels(TypedDict):
    """Whole optimizer steps under a profiler: a few that followed the window, or those of a trace."""

    steps: int
    start_ns: int
    end_ns: int
    rows: list[KernelRow]
    launches: list[tuple[int, int, int, int]]
    """(row, stream, start, ns) of what ran on the device."""

    host_rows: NotRequired[list[HostRow]]
    host: NotRequired[list[tuple[int, int, int]]]
    """(host row, start, ns); those of one kind may overlap, of several threads."""


class TraceOrigin(TypedDict):
    """Of a Recording that was made from a profiler's trace, and not by the probe: what the trace tells."""

    file: str
    are_steps_marked: bool
    """Otherwise the whole trace counts as one step."""

    has_stacks: bool
    knows_rank: bool
    is_compiled: bool
    warm_up_steps: NotRequired[int]
    """Marked steps that were left out because they took longer than those after them."""

    compiles: NotRequired[bool]
    """torch.compile compiled in the steps that were read."""


class ModuleName(TypedDict):
    """A module of the model: its path from the root model; where there are several roots, their class is in front."""

    name: str
    type: str
    is_frozen: bool
    """All of its weights are frozen, and it is in evaluation mode."""

    is_trained: NotRequired[bool]
    """It, or the root model that it is part of, has weights that are trained."""

    calls: NotRequired[int]
    """How often it was called with gradients in the steps of this record, and in what was under way when they began
    and ended."""


class LineSample(TypedDict):
    """Stack samples of one place."""

    phase: str
    """What ran, a kind of event, or "other"; "kept" is the probe's own batch in place of the loader's."""

    frames: list[tuple[str, int, str, int]]
    """(file, line, function, first line of the function) of the user's frames, the innermost last; of a deep stack the
    innermost ten."""

    callee: str
    """The function of a library that the innermost one had called, "module.name"; "" for none."""

    module: str
    """Name of the innermost module that ran; "" for none."""

    root: NotRequired[int]
    """The root model that ran then, -1 without one; absent from older Recordings."""

    count: int


class Loop(TypedDict):
    """A loop or a comprehension in the user's code."""

    file: str
    line: int
    last: int
    body: int
    """The first line of its body."""

    kind: Literal["for", "while", "comprehension"]
    carried: list[str]
    """Names whose value an iteration takes over from the one before it, but for sums."""

    fed_back: list[str]
    """Those of them that reach the first argument of a call with several, as the input of a recurrent cell is."""


class SampledLines(TypedDict):
    """Live steps after the window, sampled every millisecond."""

    steps: int
    wall_ns: int
    count: int
    rows: list[LineSample]
    """The most frequent places."""

    modules: list[ModuleName]
    statements: list[tuple[str, int, int]]
    """(file, first line, last line) of the statements over several lines that these frames are in."""

    loops: list[Loop]
    """Those that these frames are in."""


class LineOperations(TypedDict):
    """The operations of torch that one line of the user's started in one module, over all recorded steps."""

    file: str
    """"" where no line of the user's ran."""

    line: int
    function: str
    module: str
    ops: int
    """Outermost operations: those that no other one contains."""

    op_ns: int
    """Their time."""

    backward_ns: int
    """Nodes of the backward pass that these operations made."""

    host_ns: int
    """How long it was the innermost line, operations included; the trace slows Python down."""

    double_ns: int
    """Operations, those of the backward pass too, that read float64."""

    device_ns: NotRequired[dict[str, int]]
    """On CUDA: kernels, copies and fills that it launched, by the kind of event that ran then; "nodes" are those of
    the backward pass."""

    cpu_ns: NotRequired[int]
    """Of `op_ns`, operations of 50 us and more that launched nothing: those of tensors on the CPU."""

    took_ns: NotRequired[int]
    """All operations and nodes by themselves, each on the host or on the device, where it takes longer."""

    names: list[tuple[str, int, int]]
    """(name, count, ns) of those of them that take most."""


class LineRuns(TypedDict):
    """How often a line began, over all recorded steps."""

    file: str
    line: int
    function: str
    count: int


class RepeatedPasses(TypedDict):
    """Backward passes of one stack that go through the same nodes, over all recorded steps."""

    frames: list[tuple[str, int, str, int]]
    """The user's, the innermost last: file, line, function, and the function's first line."""

    passes: int
    """How often the node ran that ran most often."""

    again_ns: int
    """Runs of nodes but for the first of each, and of the nodes that these made."""

    nodes: NotRequired[int]
    """How many these are."""

    are_of_columns: NotRequired[bool]
    """Whether each of the passes derives one column of a tensor, as those by the coordinates of a sample do."""

    looping_frame: int
    """Index in `frames` of the function call in which the loop over the passes runs: the innermost that they share."""

    callee: str
    """What that frame calls next: "" for the user's own code or for backward itself, "autograd" for torch's
    derivatives, else the name of a package."""

    loops: list[Loop]
    """Those that this frame is in."""


class DerivedOneByOne(TypedDict):
    """Calls of torch.autograd.grad that derive the same output, over all recorded steps."""

    lines: list[tuple[str, int, str]]
    """(file, line, function) of the user's calls, in the order of the first ones."""

    passes: int
    """How often the node ran that ran most often for one output."""

    again_ns: int
    """Runs of nodes but for the first of each, and of the nodes that these made."""


class RecordedOperations(TypedDict):
    """One or two live steps after the window, recorded by torch's profiler and a trace of the user's lines."""

    steps: int
    wall_ns: int
    backward_ns: int
    """All nodes of the backward pass."""

    rows: list[LineOperations]
    modules: list[ModuleName]
    repeated_passes: NotRequired[list[RepeatedPasses]]
    """Those first whose repetitions took most."""

    derived_one_by_one: NotRequired[list[DerivedOneByOne]]
    """Those first whose repetitions took most."""

    selected_by_value: NotRequired[list[tuple[str, int]]]
    """(file, line) of those with a backward that pick rows by what was computed for them."""

    runs: list[LineRuns]
    statements: list[tuple[str, int, int]]
    """(file, first line, last line) of the statements over several lines that the rows are in."""


class LineResults(TypedDict):
    """What a function of the user's returned, or an assignment set, in each of some steps."""

    file: str
    line: int
    """The first one of the function, or of the assignment."""

    function: str
    kind: Literal["function", "line"]
    calls: float
    """Per step; 64 at most were compared."""

    again: int
    """Calls of a step, by their order, that gave the same in every step."""

    distinct: float
    """Different results within a step."""

    bytes: int
    """Of its largest result."""

    share: float
    """Of the stack samples of live steps, those in it and in what it calls."""


class ComparedResults(TypedDict):
    """Results that were compared over live steps."""

    steps: int
    rows: list[LineResults]


class FrozenModule(TypedDict):
    """What a module without trained weights gave for one batch in several steps."""

    name: str
    is_same: bool
    needs_grad: bool
    """Gradients go through it."""

    bytes: int
    """Of its output."""


class ComparedFrozen(TypedDict):
    """Outputs of frozen modules, compared over steps on one batch."""

    steps: int
    rows: list[FrozenModule]
    are_same_batches: NotRequired[bool | None]
    """Whether the loader gives the same batch for the same samples; None where that is not known."""


class ModuleRows(TypedDict):
    """What became of the rows of a module's outputs, and of its inputs."""

    name: str
    """"" of a product that a line of the user's makes with a weight."""

    place: NotRequired[tuple[str, int]]
    """File and line of that."""

    unused: float | None
    """Of a module that computes each row by itself, the share of the rows that got no gradient, 0 where it is not the
    same in each step; None of any other module."""

    repeated: float | None
    """The share of the rows of its inputs that are repetitions, where its outputs repeat as often; else 0. None where
    rows were not compared."""

    repeated_in_dropout: NotRequired[float | None]
    """The same where its outputs repeat as often without dropout alone, and each row comes three times at least. None
    where that was not tried; absent from older Recordings."""


class GrowingInput(TypedDict):
    """Calls of a model without gradients, each with one element of the sequences more, in all compared steps."""

    file: str
    line: int
    function: str
    """The user's line that calls it, directly or through a library."""

    elements: int
    """Of one sample, over all calls."""

    needed: int
    """Those that a cache leaves: each once."""


class Vocabulary(TypedDict):
    """An embedding, and the ids that it was asked for in all compared steps."""

    name: str
    rows: int
    largest: int
    ids: int
    heads: list[str]
    """The linear layers that score all of its rows."""


class ComparedRows(TypedDict):
    """Rows that modules computed in several steps."""

    steps: int
    rows: list[ModuleRows]
    growing: NotRequired[list[GrowingInput]]
    """Those first that compute most anew."""

    vocabularies: NotRequired[list[Vocabulary]]


class CountedProducts(TypedDict):
    """Floating-point operations of matrix products, convolutions and attention, without what was recomputed."""

    steps: list[dict[str, int]]
    """Of each step, by element type: "bfloat16", "float32", "tf32"."""

    unknown: list[str]
    """Operators that compute and have no formula: with one of them the numbers are too small."""


class Lines(TypedDict):
    """What live steps after the window tell of the user's lines."""

    results: NotRequired[ComparedResults]
    frozen: NotRequired[ComparedFrozen]
    rows: NotRequired[ComparedRows]
    products: NotRequired[CountedProducts]
    lines: NotRequired[SampledLines]
    operations: NotRequired[RecordedOperations]


class GraphHolder(TypedDict):
    """A variable that holds the graphs of most steps."""

    name: str
    """"losses", "self.history"."""

    file: str
    line: int
    """Where its function was when the window ended."""


class KeptGraphs(TypedDict):
    """The autograd graphs that were alive when the window ended."""

    num_steps: int
    """Steps, of all that were made but the first, of which nodes lived."""

    num_filling: int
    """Bounded deques of at least 1000 items that have as many items as steps were made, and are not full."""

    holder: GraphHolder | None


class UnusedGradients(TypedDict):
    """Parameters whose gradients a line that calls backward computes and nobody uses."""

    file: str
    line: int
    reason: Literal["unowned", "discarded"]
    """In no optimizer, or cleared before an optimizer read them."""

    parameters: int
    of_parameters: int
    """Elements of them, and of all parameters that these backwards reach."""

    modules: str


class UnusedSecondDerivatives(TypedDict):
    """A line that makes a graph of derivatives which no gradient but zeros comes back to."""

    file: str
    line: int


class Float64(TypedDict):
    """float64 in one step, outside of optimizers."""

    file: str
    line: int
    """Where most of it arises from something else, or is first used."""

    source: str
    """The function of torch that it arises in, or the variable that has it before the step."""

    results: int
    elements: int
    """Tensors of float64 that functions of torch returned, and their elements."""

    is_asked_for: bool


class WhatIfResult(TypedDict):
    """What a what-if probe measured; which keys it has depends on the probe."""

    step_ns: NotRequired[list[float]]
    micro_ns: NotRequired[list[float]]
    update_ns: NotRequired[list[float]]
    batch_ns: NotRequired[list[float]]
    samples: NotRequired[float | list[Any] | None]
    """Of a replay: samples of a step. Of a loader alone: rows of stack samples."""

    tokens: NotRequired[float | None]
    input_elements: NotRequired[float]
    """Of a step: elements of all tensors that the root models were called with."""

    peak_bytes: NotRequired[float | None]
    needed_bytes: NotRequired[int | None]
    """Of a micro-batch that was not tried: what it needs at least, more than the device has."""

    bytes: NotRequired[float | None]
    ns: NotRequired[float | None]
    queued_ns: NotRequired[float | None]
    cpu_ns: NotRequired[float | None]
    start_ns: NotRequired[float | None]
    end_ns: NotRequired[float | None]
    other_cpus: NotRequired[float | None]
    """CPUs that other processes used meanwhile."""

    items: NotRequired[dict[str, Any] | None]
    gradients: NotRequired[list[UnusedGradients]]
    second_derivatives: NotRequired[list[UnusedSecondDerivatives]]
    float64: NotRequired[Float64 | None]


if TYPE_CHECKING:  # which keys there are depends on the probe, and derive asks for them by computed names
    WhatIfArguments = Mapping[str, Any]
    WhatIfValues = Mapping[str, Any]
    Loss = float
else:
    WhatIfArguments = Mapping[str, Argument]
    WhatIfValues = WhatIfResult
    Loss = float | Literal["nan", "inf", "-inf"]  # what JSON has no numbers for; `from_json` makes floats of them


class Blocked(TypedDict):
    """A side effect that was prevented."""

    what: str


class NotIsolated(TypedDict):
    """A side effect that could not be prevented."""

    what: str


class RecordedSideEffects(TypedDict):
    """What became of the script's side effects that are no files."""

    blocked: list[Blocked]
    not_isolated: list[NotIsolated]


class Overhead(TypedDict):
    """What the probe itself cost."""

    events: int
    """Number of events."""

    event_ns: int
    """Wall time of the hooks in the thread that trains."""

    sampler_ns: int
    """CPU time of the sampler's thread."""

    setup_ns: int


OTHER_KEYS: dict[type, Any] = {
    LoaderArguments: Argument,
    FrameworkValues: Argument,
    TorchState: Scalar,
    WhatIfResult: Any,
    Blocked: Any,
    NotIsolated: Any,
}
"""What the values of keys that are not listed above may be; all other objects have no further keys."""
