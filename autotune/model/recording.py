"""The Recording: what the probe saw in one process. The wire format is `recording.schema.json` beside this file.

Times are integer nanoseconds of CLOCK_MONOTONIC, the same clock in all processes of a machine, counted from
`origin_ns` of the process. Sizes are bytes. What was not observed is None or absent, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct, convert
from msgspec.structs import replace

from autotune.model.recording_sections import (
    CallSite,
    Compilation,
    Error,
    Frameworks,
    HostCall,
    InputOutput,
    KeptGraphs,
    Kernels,
    Lines,
    Loader,
    Loss,
    Model,
    Optimizer,
    Overhead,
    Process,
    RecordedDevice,
    RecordedSideEffects,
    TorchState,
    TraceOrigin,
    WhatIfArguments,
    WhatIfValues,
)

SCHEMA = 1

Json = Mapping[str, Any]

EventKind = Literal[
    "iter",  # DataLoader.__iter__: workers start; ref = loader
    "fetch",  # next() of its iterator: the training process waits; ref = loader; flag = 1 when a batch came
    "forward",  # outermost call of a root module; ref = model; flag = 1 grad enabled + 2 module in training mode
    "recompute",  # a module's call inside backward: activation checkpointing
    "backward",  # torch.autograd.backward / grad
    "optimizer",  # outermost Optimizer.step; ref = optimizer
    "closure",  # a function of the script's that Optimizer.step was given: what it does is not the update
    "scaler_skip",  # GradScaler.step that skipped the update (instant)
    "mode",  # Module.train(flag) of a root module (instant); ref = model; flag 1 train, 0 eval
    "checkpoint",  # a save, the outermost call that is known (Trainer._save_checkpoint, torch.save ...)
    "evaluation",  # a library's own evaluation loop, where it has one
    "logging",  # logging records and trackers
    "h2d",  # copy to the device as the host sees it
    "sync",  # host read of a device tensor; ref = index into calls
    "collective",  # one of torch.distributed that the script or a library issues, or waits for; ref = index into calls
    "empty_cache",  # ref = index into calls
    "gc",  # explicit gc.collect; ref = index into calls
    "serialise",  # the probe's own serialisation of the state (outside the window)
]

EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)


class Event(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One interval in the training thread. Intervals nest or are disjoint; exclusive times are derived."""

    kind: EventKind
    start_ns: int
    end_ns: int
    ref: int = -1
    """Which loader, model, optimizer or call, by its id or index; -1 for none."""

    flag: int = 0


class Fetch(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One batch prepared by a fetcher, in a worker or in the training process."""

    loader: int
    pid: int
    start_ns: int
    wall_ns: int
    cpu_ns: int
    collate_wall_ns: int
    collate_cpu_ns: int
    num_samples: int
    in_main: bool
    """The training process prepared it."""

    queued_ns: int | None = None
    """How long the fetcher was ready and had no CPU; None where the system does not say it."""


class Batch(Struct, frozen=True, forbid_unknown_fields=True):
    """One batch as the training loop got it. Token counts and lengths are None where they cannot be known."""

    loader: int
    at_ns: int
    num_samples: int | None
    num_bytes: int
    shapes: tuple[tuple[int, ...], ...]
    tokens: int | None = None
    useful_tokens: int | None = None
    """Without padding."""

    width: int | None = None
    """The padded width."""

    lengths: tuple[int, ...] | None = None
    """Tokens of each sample, without padding."""

    padding: Literal["attention_mask", "pad_id", "counts"] | None = None
    """How the lengths are known; `counts`: they came with the batch, in tokens or frames."""


class Sample(Struct, frozen=True, forbid_unknown_fields=True):
    """Stack samples that fell into one place."""

    phase: str
    """What ran: a kind of event, or "other"."""

    leaf_file: str
    """Of the innermost frame, as the next."""

    leaf_function: str
    user_file: str
    """Of the innermost frame in the user's own files, as the next two; "" when there is none."""

    user_line: int
    user_function: str
    count: int
    path: str = ""
    """Of "other" and "backward", the user's functions from the outermost on: "main > Board.add > Board.put"."""

    writers: str = ""
    """Those of the path that write into a file whenever they are called."""

    wall_ns: int | None = None
    """Sum of the times since the sample before each; None in older Recordings, as the next two."""

    cpu_ns: int | None = None
    """CPU time of all threads of the process in those times, without the sampler's own."""

    step_sum: int | None = None
    """Sum of the numbers of the steps, from 0 since the script began, that the samples fell into."""


class Averaging(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What DDP timed of one backward whose gradients it averaged."""

    end_ns: int
    """The end of the backward."""

    exposed_ns: int
    """From the last gradient to the end of the last all-reduce: what backward does not hide, waits included."""

    compute_ns: int
    """Until the last gradient."""


class StartUpTime(Struct, frozen=True, forbid_unknown_fields=True):
    """What one thing took until the first step, by stack samples that each stand for the time since the one before."""

    cause: str
    """A row of catalogue/startup.toml."""

    detail: str
    """Of an import the package ("transformers > tensorflow": what the second took within the first), of other code the
    package that ran, "" where nothing more is known."""

    file: str
    """The user's line, as the next two; "" and 0 where none was on the stack."""

    line: int
    function: str
    ns: int
    cpu_ns: int
    """Of all threads of the process, in that time."""

    arguments: Mapping[str, bool | int | str | None] = {}
    """Local variables of the library's function that startup.toml names."""


class StartUp(Struct, frozen=True, forbid_unknown_fields=True):
    """From the start of the process until its first step, or as far as it came."""

    process_ns: int | None
    """When the system started the process, before `origin_ns`: negative. None where the system does not say it."""

    sampled_from_ns: int
    """When the first sample begins; before it the interpreter started."""

    sampled_until_ns: int
    rows: tuple[StartUpTime, ...]
    """The longest first."""

    unhashed_map: bool | None = None
    """`datasets` could not hash a function that it was given, and will not find its result again; None for a release
    of it that does not say so."""


class RecordedWindow(Struct, frozen=True, forbid_unknown_fields=True):
    """The measured steps: from the end of step `warmup_steps` to the end of step `warmup_steps + steps`.

    The CPU times of the window are None where the script ended it.
    """

    warmup_steps: int
    steps: int
    start_ns: int
    end_ns: int
    step_ends_ns: tuple[int, ...]
    """The end of each optimizer step since the script began, warm-up included: at least warmup_steps + steps."""

    steps_by: Literal["optimizer", "backward"] | None
    """What counted the steps."""

    ended_by: Literal["steps", "time_limit", "script_ended", "error"]
    device_clock: tuple[tuple[int, int], ...] = ()
    """Pairs of a host time and when the CUDA device had done what was queued until then, in ns since the first pair;
    the ends of the phases are among them. Empty on a CPU run, and where CUDA gave no times."""

    cpu_ns: int | None = None
    """CPU time of the training thread in the window."""

    process_cpu_ns: int | None = None
    """CPU time of all threads of its process in the window."""

    queued_ns: int | None = None
    """How long the training thread could run and had no CPU; None also where the system does not say it."""

    step_cpu_ns: tuple[int, ...] = ()
    """CPU time of the training thread at the end of each step, since the end of the first; empty in older ones."""

    step_process_cpu_ns: tuple[int, ...] = ()
    """The same of all threads of the process."""

    step_input_elements: tuple[int, ...] = ()
    """Elements of all tensors that the root models were called with until the end of each step; empty in older ones."""

    memory_bytes: tuple[tuple[int, int], ...] = ()
    """(steps made, bytes) at the ends of steps, every 10 ms at most: what CUDA's allocator has given out, or the
    resident memory of a process that does not train on CUDA."""


class WhatIf(Struct, frozen=True, forbid_unknown_fields=True):
    """One probe after the window, with these arguments and results:

    replay         {"num_batches"}                       -> {"step_ns": [..], "update_ns", "micro_ns", "samples",
                                                             "tokens", "input_elements", "other_cpus"}
    replay_changed {"averaging"}, {"threads"}, {"fused"}, {"deterministic"}, {"anomaly"}, {"memory_tracing"},
                   {"profiler"}, {"unused_gradients"}, {"second_derivatives"}, {"float64": false},
                   {"float64": true}: as it is, but watched as without it, or {}: as it is, in turns with them
                                                         -> the same
    micro_batch    {"factor": 0.5 | 1 | 2 | 4}           -> {"micro_ns": [..], "samples", "tokens",
                                                             "input_elements", "peak_bytes"}, or,
                                                         left out as it needs more than there is, {"needed_bytes"}
    narrow_batch   {}: half the width                    -> {"micro_ns": [..], "samples", "tokens"}
    watch          {}                                    -> {"gradients": [..], "second_derivatives": [..],
                                                             "float64"}
    loader_alone   {"loader", "num_workers"}             -> {"batch_ns", "start_ns", "cpu_ns", "queued_ns",
                                                             "end_ns", "other_cpus"}
                                                         and, without workers, "samples", "items"
    serialise      {"parts": "model+optimizer"}          -> {"ns", "bytes"}
    """

    name: Literal["replay", "replay_changed", "micro_batch", "narrow_batch", "watch", "loader_alone", "serialise"]
    outcome: Literal["completed", "failed", "out_of_memory", "left_out"]
    arguments: WhatIfArguments
    result: WhatIfValues


class FitPeak(Struct, frozen=True, forbid_unknown_fields=True):
    """The most bytes that storages held at once in a phase of a fake step, and what these were.

    `parts` has weights (buffers among them), casts (autocast's copies of weights), gradients, optimizer (its state) and
    rest: activations, batches, results.
    """

    bytes: int
    parts: Mapping[str, int]


class FitStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One fake step, with micro-batches of `samples`, each `length` tokens long; None where the model's inputs do not
    say it."""

    samples: int | None
    length: int | None
    micro_batches: int
    peaks: Mapping[str, FitPeak]
    """Of `forward and backward`, and of `optimizer`: its update."""

    reserved_bytes: int
    """What CUDA's allocator would have taken from the driver, by a simulation of it."""

    work: tuple[tuple[int, int, str, int], ...]
    """(operations, bytes read and written, type, how many operators): those with the most bytes first."""

    num_operators: int
    seconds: float
    """Since the first fake step began."""


class MadeUpValue(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that read a value which only the data can say, and what it was told."""

    file: str
    line: int
    operator: str
    value: str


class FitBreak(Struct, frozen=True, forbid_unknown_fields=True):
    """An operator that cannot run without data, by the name of what it raised."""

    operator: str
    reason: str
    site: CallSite


class FitRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """What fake steps of the script told."""

    steps: tuple[FitStep, ...]
    made_up: tuple[MadeUpValue, ...]
    breaks: tuple[FitBreak, ...]
    began: bool
    """Whether the first fake step began."""

    compiles: bool
    """Whether the script called torch.compile, which was left out."""

    has_optimizer: bool
    """Whether it made an optimizer; without one each backward is a step."""

    largest_layer_bytes: int | None
    """Parameters of the largest of the repeated layers, of lists of modules of one class; None without any."""

    outside_layers_bytes: int | None
    """Parameters that are in none of these layers, such as embeddings."""

    num_trained: int
    """Elements of the parameters that require a gradient."""

    trained_bytes: int
    """Their bytes."""


class Recording(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything from one process."""

    outcome: Literal["completed", "ended_early", "raised", "out_of_memory", "no_step"]
    origin_ns: int
    """When the process began; other times count from here."""

    process: Process
    error: Error | None
    software: Mapping[str, str]
    """Versions of the modules that were imported, by distribution name."""

    device: RecordedDevice | None
    """None before a model was seen."""

    window: RecordedWindow | None
    events: tuple[Event, ...]
    fetches: tuple[Fetch, ...]
    batches: tuple[Batch, ...]
    samples: tuple[Sample, ...]
    sampler_interval_ns: int
    loaders: tuple[Loader, ...]
    optimizers: tuple[Optimizer, ...]
    models: tuple[Model, ...]
    frameworks: Frameworks
    calls: tuple[HostCall, ...]
    torch_state: TorchState
    environment: Mapping[str, str]
    """Allowlisted variables; "" when unset."""

    memory: Mapping[str, int | None]
    """`rss_peak_bytes`, `rss_start_bytes`, and for CUDA `peak_allocated_bytes`, `peak_reserved_bytes`, `total_bytes`,
    `num_alloc_retries`."""

    io: InputOutput | None
    """None where /proc has none."""

    compile: Compilation | None
    """None when dynamo was not used."""

    kernels: Kernels | None
    """None without CUDA."""

    what_ifs: tuple[WhatIf, ...]
    side_effects: RecordedSideEffects
    overhead: Overhead
    lines: Lines | None = None
    """None where no live step followed the window."""

    averagings: tuple[Averaging, ...] | None = None
    """Of the window's first backwards, but for the last one; empty where DDP times none (on CUDA, or no DDP). None in
    older ones, which have no events of collectives either."""

    kept_graphs: KeptGraphs | None = None
    """None where the window was not looked at when it ended, or torch does not number the nodes of a graph."""

    losses: tuple[Loss | None, ...] = ()
    """Of each step since the script began, the sum of the values whose backward was called; None where unknown (no
    single number, or scaled by a GradScaler), and nothing after the window. A float may be infinite or NaN."""

    startup: StartUp | None = None
    """None where nothing sampled it: in a forked process, and in an older Recording."""

    fit: FitRecord | None = None
    """None where the script trained."""

    trace: TraceOrigin | None = None
    """None where the probe recorded it."""

    @property
    def device_type(self) -> str | None:
        """ "cpu", "cuda" or "mps"; None before a model was seen."""
        return self.device["type"] if self.device else None


def missing_ranks(recordings: Iterable[Recording]) -> tuple[int, ...]:
    """Ranks of the job of which there is no Recording."""
    processes = [one.process for one in recordings]
    size = max((process["world_size"] for process in processes), default=0)
    return tuple(sorted(set(range(size)) - {process["rank"] for process in processes}))


def from_json(data: Json) -> Recording:
    """The Recording in `data`, the parsed JSON of a file that `recording.schema.json` describes.

    Keys that this version does not know are left out or left alone. Raises ValueError, which names the place, when
    `data` is not a Recording; the caller says which file it was.
    """
    if not isinstance(data, dict):
        raise ValueError("it is no object")
    if data.get("schema") != SCHEMA:
        raise ValueError(f"schema {data.get('schema')!r} is not {SCHEMA}")
    made = convert({name: part for name, part in data.items() if name != "schema"}, Recording)
    if made.window is not None:
        _check_window(made.window)
    open_ = {name: tuple(data[name]) if isinstance(data[name], list) else data[name] for name in OPEN}
    tried = zip(made.what_ifs, data["what_ifs"], strict=True)
    what_ifs = tuple(replace(one, result=row["result"]) for one, row in tried)
    losses = tuple(None if one is None else float(one) for one in made.losses)
    return replace(made, **open_, what_ifs=what_ifs, losses=losses)


OPEN = ("frameworks", "loaders", "side_effects", "torch_state")
"""Parts with keys that are not named in the schema: they are checked, and left as they are."""


def _check_window(window: RecordedWindow) -> None:
    """Raises ValueError for a window that its steps contradict."""
    ends, first, num_steps = window.step_ends_ns, window.warmup_steps, window.steps
    for name in ("step_cpu_ns", "step_process_cpu_ns", "step_input_elements"):
        given = getattr(window, name)
        if len(given or ends) != len(ends):
            raise ValueError(f"{len(given)} {name} are not of {len(ends)} steps")
    if first < 1 or num_steps < 0 or len(ends) < first + num_steps or list(ends) != sorted(ends):
        raise ValueError(f"{len(ends)} step_ends_ns are no {first} steps of warm-up and {num_steps} after them")
