"""Facts of the lines that cost most, of the loops around them, and of what gives the same result again."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from autotune.derive import attention, loop_facts, parametrizations, repeated_backward, row_facts, vocabulary
from autotune.derive.kernels import shares
from autotune.derive.lines import (
    PRODUCTS,
    TABLE_GRADIENT,
    Cost,
    LineCosts,
    Place,
    collapsed,
    hot_lines,
    line_costs,
    module_names,
    operation_words,
    place_name,
)
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact, Location, Value
from autotune.model.recording_sections import FrozenModule, LineResults
from autotune.model.report import HotLine

LEAST_FROZEN = 0.05
"""Of the step: frozen modules that take less have no outputs worth keeping."""

MOST_SUBJECTS = 8
MOST_OF = 0.8
"""Of a line's samples: then it is part of the loop, or of the function, around it."""

MODEL = frozenset((
    "mm", "addmm", "bmm", "baddbmm", "addmv", "matmul", "linear", "mv", "dot", "einsum", "conv", "convolution",
    "mkldnn", "lstm", "gru", "rnn", "attention", "norm", "embedding", "softmax", "logsumexp", "relu", "gelu", "silu",
    "elu", "selu", "mish", "hardswish", "softplus", "tanh", "sigmoid", "hardtanh", "threshold", "pool", "dropout",
    "bernoulli", "loss", "entropy", "optimizer", "adam", "adamw", "sgd", "foreach", "fused", "upsample", "grid",
))  # fmt: skip
"""Words in the names of operations that a model's forward and backward passes, losses and updates are made of. What
else fills a line is worth a look."""

ELEMENTWISE = frozenset((
    "exp", "log", "pow", "sqrt", "rsqrt", "abs", "neg", "square", "clamp", "min", "max", "amin", "amax", "mul", "add",
    "sub", "rsub", "div", "addcmul", "addcdiv", "lerp", "sum", "mean", "var", "std", "fill", "zero", "zeros",
))  # fmt: skip
"""The same inside of a model alone: around it a pass over large tensors, element by element, is worth a look."""

UNUSUAL = frozenset(
    ("index", "renorm", "scatter", "gather", "linalg", "fft", "matrix", "nonzero", "unique", "sort", "segment")
)
"""A name with one of these is none of them, whatever its other words are: index_add, matrix_exp."""

OUTSIDE = ("forward", "other")
"""Phases whose lines are asked about: the rules about data loading and updates judge the others."""

LEAST_OPS, MOST_OP_US = 500, 30.0
"""So many operations each time that a line runs, so short each: starting them takes longer than computing them."""

MOST_GRAPH = 0.05
"""Of a line's time in the backward pass: less, and what it computes is not trained through."""

CLEARS = ("aten::fill_", "aten::zero_")

ResultValues = tuple[LineResults, dict[str, Value | None]]

SEVERAL = 1.5
"""Fewer runs in a step are not worth a number."""

TO_TENSOR = ("aten::lift_fresh", "aten::detach_")
"""What torch.tensor(...) of Python values leaves among the operations."""


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `line.*`, `loop.*` and `result.*`; nothing without stack samples."""
    found = line_costs(view)
    if found is None:
        return
    lines = [line for line in hot_lines(found) if line.share >= loop_facts.LEAST_SHARE]
    exposed, trained = exposed_share(view), _trained_modules(view)
    loops, results = loop_facts.loops(view, found)[:MOST_SUBJECTS], _results(view, found)[:MOST_SUBJECTS]
    for number, line in enumerate(lines[:MOST_SUBJECTS], 1):
        inside = _around(line, found, loops, results)
        place = Location(line.file, line.line, end_line=line.end_line)
        yield from _stated(f"line#{number}", place, {**_of_line(line, exposed, trained), "inside": inside})
    for number, (loop, values) in enumerate(loops, 1):
        yield from _stated(f"loop#{number}", Location(loop["file"], loop["line"], end_line=loop["last"]), values)
    for number, (row, values) in enumerate(results, 1):
        at = _caller(row, found) or (row["file"], row["line"])
        yield from _stated(f"result#{number}", Location(*at), values)
    yield Fact("line.num_seen", RUN, len(lines))
    if found.recorded is not None:
        yield Fact("loop.num_seen", RUN, len(loops))
    if view.recording.lines and "results" in view.recording.lines:
        yield Fact("result.num_seen", RUN, len(results))
    yield from _frozen(view, found)
    yield from row_facts.facts(view, found)
    yield from repeated_backward.facts(found)
    yield from repeated_backward.one_by_one(found)
    yield from parametrizations.facts(view, found)
    yield from attention.facts(found)
    yield from vocabulary.facts(view, found)


def _frozen(view: RecordingView, found: LineCosts) -> Iterator[Fact]:
    """What modules take that are not trained and give the same for the same input, and the outermost of them."""
    names = {row["name"] for row in module_names(view) if row["is_frozen"]}
    outermost = sorted(name for name in names if not any(name.startswith(f"{other}.") for other in names))
    shares: dict[str, float] = defaultdict(float)
    for cost in found.costs:
        of = next((name for name in outermost if row_facts.is_in_module(name, cost)), None)
        if of is not None:
            shares[collapsed(of)] += found.share(cost.ms)
    names_known = any(True for _ in module_names(view))
    if names_known:
        yield Fact("frozen.share", RUN, sum(shares.values()))
    if shares:
        yield Fact("frozen.module", RUN, max(shares, key=lambda name: shares[name]))
    compared = view.recording.lines.get("frozen") if view.recording.lines else None
    if compared is None and names_known and sum(shares.values()) < LEAST_FROZEN:
        yield Fact("frozen.cacheable_share", RUN, 0.0)  # too little to be compared
    if compared is not None and compared["rows"]:  # else none of them ran meanwhile
        yield from _cacheable([row for row in compared["rows"] if row["is_same"] and not row["needs_grad"]], found)
        same = compared.get("are_same_batches")
        if same is not None:
            yield Fact("frozen.are_same_batches", RUN, same)


def _cacheable(rows: Sequence[FrozenModule], found: LineCosts) -> Iterator[Fact]:
    """The most expensive of the modules `rows`, whose outputs repeat with the batch, and the line that calls it."""
    inside = {row["name"]: row_facts.inside(row["name"], found) for row in rows}
    shares = {name: found.share(sum(cost.ms for cost in costs)) for name, costs in inside.items()}
    name = max(shares, key=lambda name: shares[name], default="")
    call = row_facts.calling_line(inside[name], found) if name else None
    yield Fact("frozen.cacheable_share", RUN, shares.get(name, 0.0), (Location(*call),) if call else ())
    if name:
        yield Fact("frozen.cacheable_module", RUN, collapsed(name))
        yield Fact("frozen.cacheable_bytes", RUN, sum(row["bytes"] for row in rows if row["name"] == name))


def _around(
    line: HotLine, found: LineCosts, loops: Sequence[loop_facts.LoopValues], results: Sequence[ResultValues]
) -> str:
    """Subjects of the loops and results that hold most of the line's samples: "loop#1, result#2"."""
    place = line.file, line.line
    own = [cost for cost in found.costs if cost.seen.count and _place(cost, found) == place]
    of_loops = [
        (f"loop#{n}", [c for c in own if loop_facts.is_inside(loop, c)]) for n, (loop, _) in enumerate(loops, 1)
    ]
    of_results = [
        (f"result#{n}", [c for c in own if _holds(row, c.seen.frames)]) for n, (row, _) in enumerate(results, 1)
    ]
    most = MOST_OF * sum(cost.ms for cost in own)
    return ", ".join(
        subject for subject, inside in (*of_loops, *of_results) if inside and sum(cost.ms for cost in inside) > most
    )


def _place(cost: Cost, found: LineCosts) -> Place | None:
    return found.statement.place(cost.seen.frames[-1]) if cost.seen.frames else None


def _stated(subject: str, place: Location, values: Mapping[str, Value | None]) -> Iterator[Fact]:
    kind = subject.split("#")[0]
    for name, value in values.items():
        if value is not None:
            yield Fact(f"{kind}.{name}", subject, value, (place,))


def exposed_share(view: RecordingView) -> float | None:
    """What the host's time can cost, of the step: all of it, but on CUDA no more than the device is idle; None where
    that is unknown."""
    if view.recording.device_type != "cuda":
        return 1.0
    busy_share = shares(view).get("busy_share")
    return 1 - busy_share if isinstance(busy_share, float) else None


def _trained_modules(view: RecordingView) -> frozenset[str] | None:
    """Names of the modules that belong to a trained model; None where that was not noted."""
    names = list(module_names(view))
    if not all("is_trained" in row for row in names):
        return None
    return frozenset(collapsed(row["name"]) for row in names if row.get("is_trained"))


def _of_line(line: HotLine, exposed: float | None, trained: frozenset[str] | None) -> dict[str, Value | None]:
    own_ms = sum(line.phase_ms.values())
    of_step = line.share / (own_ms + line.backward_ms) if own_ms + line.backward_ms else 0.0
    outside = {phase: ms for phase, ms in line.phase_ms.items() if phase in OUTSIDE}
    in_torch = line.torch_share or 0.0
    host = None if line.torch_share is None else sum(outside.values()) * of_step * (1 - in_torch)
    unusual = unusual_share(line) * (own_ms * in_torch + line.backward_ms) * of_step if line.operations else None
    return {
        "where": place_name(line.file, line.line, line.function),
        "share": line.share,
        "phase": max(line.phase_ms, key=lambda phase: line.phase_ms[phase]) if line.phase_ms else "backward",
        "other_share": line.phase_ms.get("other", 0.0) * of_step,
        "host_share": _at_most(host, exposed),
        # Kernels that are known to be the line's take the device's time, whether it is idle at other times or not.
        "unusual_share": unusual if line.device_ms is not None else _at_most(unusual, exposed),
        "product_share": outside_product_share(line, trained) * (own_ms * in_torch + line.backward_ms) * of_step
        if line.operations and trained is not None
        else None,
        "small_ops_share": _at_most(small_ops_share(line), exposed),
        "dense_table_share": dense_table_share(line) * (own_ms * in_torch + line.backward_ms) * of_step
        if line.operations
        else None,
        "double_share": line.double_share,
        "runs": line.runs if line.runs is not None and line.runs >= SEVERAL else None,
        "is_entered": line.runs is not None if line.torch_share is not None else None,
        "ops": line.ops,
        "op_us": line.op_us,
        "callee": line.callee or "none",
        "spends": spends(line),
        "is_deep_copy": line.callee.startswith("copy."),
        # torch.tensor is no Python function: what it converts is no time of a function of a library's.
        "makes_tensors": any(name in TO_TENSOR for name, _ in line.operations) and not line.callee
        if line.operations
        else None,
    }


def _at_most(share: float | None, limit: float | None) -> float | None:
    return None if share is None or limit is None else min(share, limit)


def unusual_share(line: HotLine) -> float:
    """Of the time of its operations, those that are not among the expected ones."""
    is_in_model = line.phase_ms.get("other", 0.0) < MOST_OF * sum(line.phase_ms.values())
    return sum(share for name, share in line.operations if not is_expected(name, is_in_model=is_in_model))


def outside_product_share(line: HotLine, trained: frozenset[str]) -> float:
    """Of the time of its operations, the part in products and convolutions, where no module of a trained model runs
    them; else 0."""
    if trained.intersection(line.modules):
        return 0.0
    return sum(share for name, share in line.operations if operation_words(name) & PRODUCTS and is_expected(name))


def small_ops_share(line: HotLine) -> float | None:
    """Of the step, the line without its backward pass, where it starts many short operations each time that it runs
    and is not trained through; else 0. None where its operations were not counted."""
    if line.ops is None or line.op_us is None or line.runs is None:
        return None
    own_ms = sum(ms for phase, ms in line.phase_ms.items() if phase in OUTSIDE)
    is_small = line.ops >= LEAST_OPS * line.runs and line.op_us <= MOST_OP_US
    all_ms = sum(line.phase_ms.values()) + line.backward_ms
    is_untrained = line.backward_ms <= MOST_GRAPH * all_ms
    return line.share * own_ms / all_ms if is_small and is_untrained and own_ms else 0.0


def dense_table_share(line: HotLine) -> float:
    """Of the time of its operations, the dense gradients of embedding tables, where more of it goes into clearing the
    table's rows than into adding to those that were used; else 0."""
    of = dict(line.operations)
    added, cleared = of.get(TABLE_GRADIENT, 0.0), sum(of.get(name, 0.0) for name in CLEARS)
    return added + cleared if added and cleared >= added else 0.0


def is_expected(operation: str, *, is_in_model: bool = True) -> bool:
    words = operation_words(operation)
    if words == {"norm"}:  # of a tensor, and no layer's
        return False
    return bool(words & (MODEL | ELEMENTWISE if is_in_model else MODEL)) and not words & UNUSUAL


def spends(line: HotLine) -> str:
    """What a line spends most of its time in: a library's function, Python, or one operation of torch; "" else."""
    if line.torch_share is not None and line.torch_share < 0.5:
        return line.callee or "Python"
    if line.operations:
        name, share = line.operations[0]
        if _is_on_cpu(line):
            return "operations of torch on tensors of the CPU"
        return _operation(name) if share >= 0.5 else ""
    return line.callee


def _is_on_cpu(line: HotLine) -> bool:
    """Whether most of it is operations on the CPU in a training on CUDA, and the device waits meanwhile."""
    ms = sum(line.phase_ms.values()) + line.backward_ms
    is_idle = line.device_ms is not None and line.device_ms < 0.5 * ms
    return is_idle and line.cpu_share is not None and line.cpu_share >= 0.5


def _operation(name: str) -> str:
    return f"torch.{name.split('::')[-1]}" if name.startswith("aten::") else name


def _results(view: RecordingView, found: LineCosts) -> list[ResultValues]:
    """What gave the same result in each step, or several times within one; of what contains each other the largest."""
    compared = view.recording.lines.get("results") if view.recording.lines else None
    if compared is None:
        return []
    chosen: list[LineResults] = []
    for row in sorted(compared["rows"], key=lambda row: (-row["share"], row["kind"])):
        if (
            row["share"] >= loop_facts.LEAST_SHARE
            and _is_again(row)
            and not any(_overlap(row, one, view) for one in chosen)
        ):
            chosen.append(row)
    return [(row, _of_result(row, compared["steps"], _share_of_window(row, found))) for row in chosen]


def _share_of_window(row: LineResults, found: LineCosts) -> float:
    """Of the window's step; the row's own share is of the live steps, whose batches may have come without a wait."""
    inside = [cost.ms for cost in found.costs if cost.seen.count and _holds(row, cost.seen.frames)]
    return found.share(sum(inside)) if inside else row["share"]


def _caller(row: LineResults, found: LineCosts) -> Place | None:
    """The line that most calls of a function of several calls in a step come from: there it may be called less."""
    if row["kind"] != "function" or row["calls"] < SEVERAL or row["again"] >= row["calls"]:
        return None
    calls: dict[Place, float] = defaultdict(float)
    for cost in found.costs:
        frames = cost.seen.frames
        for caller, own in itertools.pairwise(frames):
            if cost.seen.count and own[0] == row["file"] and own[3] == row["line"]:
                calls[found.statement.place(caller)] += cost.ms
    return max(calls, key=lambda place: calls[place], default=None)


def _is_again(row: LineResults) -> bool:
    """In each step the same, or several times within a step: each result twice on average."""
    return row["again"] >= row["calls"] > 0 or (row["calls"] >= 2 and row["distinct"] <= row["calls"] / 2)


def _of_result(row: LineResults, steps: int, share: float) -> dict[str, Value | None]:
    is_constant = row["again"] >= row["calls"]
    kept = 0.0 if is_constant else row["distinct"] / row["calls"]
    return {
        "where": place_name(row["file"], row["line"], row["function"]),
        "share": share,
        "saved_share": share * (1 - kept),
        "is_constant": is_constant,
        "calls": row["calls"] if row["calls"] > 1 else None,
        "num_steps": steps,
        "bytes": row["bytes"],
    }


def _overlap(row: LineResults, other: LineResults, view: RecordingView) -> bool:
    """Whether most samples of one of the two lie in the other one, too."""
    sampled = view.recording.lines.get("lines") if view.recording.lines else None
    both = own = others = 0
    for sample in sampled["rows"] if sampled else ():
        in_one, in_other = _holds(row, sample["frames"]), _holds(other, sample["frames"])
        both += sample["count"] if in_one and in_other else 0
        own += sample["count"] if in_one else 0
        others += sample["count"] if in_other else 0
    return both > 0.5 * min(own, others)


def _holds(row: LineResults, frames: Sequence[tuple[str, int, str, int]]) -> bool:
    if row["kind"] == "function":
        return any(file == row["file"] and first == row["line"] for file, _, _, first in frames)
    return any(file == row["file"] and line == row["line"] for file, line, *_ in frames)
