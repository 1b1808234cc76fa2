"""Where the time of a step goes, by the user's lines and by modules.

The phases of the window are exact. What fills each of them is told by stack samples: of live steps after the window,
which are sampled finely, and where these have few, of the window as well. The time of the backward pass is charged to
the lines whose operations made its nodes. On CUDA the kernels of each line are known; samples of the host divide what
is left of a phase, in which the device waits.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from autotune.derive.recording_view import MS, MeasuredWindow, RecordingView
from autotune.derive.timeline import PHASE_OF, EventNode
from autotune.model.recording_sections import LineOperations, ModuleName, RecordedOperations, SampledLines
from autotune.model.report import Caller, HotLine, RepeatedCall

ENOUGH = 30
"""Fine samples of a phase; with fewer, those of the window count too."""

ENOUGH_OF_ROOT = 10
"""Of each root model, to divide its own time among its samples."""

LEAST_OF_ROOT = 0.02
"""Of forward: a root model that takes less may have no sample at all."""

MOST_OPERATIONS = 3
TABLE_GRADIENT = "aten::embedding_dense_backward"
"""Kept beside those that take most: it tells what clearing and adding are done for."""

PRODUCTS = frozenset(
    ("mm", "addmm", "bmm", "baddbmm", "addmv", "matmul", "linear", "mv", "einsum", "conv", "convolution")
)
"""Words in the names of products and convolutions: at a line outside of every model they are not the model's."""

MOST_CALLERS = 3
SEVERAL = 1.5
"""Runs for one micro-batch."""

MOST_OF = 0.5
"""Of a line's time: the part that lines lead to which run several times."""

FORWARD = "forward"
BACKWARD = "backward"
NODES = "nodes"
"""The kind of the device's time for nodes of the backward pass, which the lines of their makers have."""

KEPT = "kept"
"""The probe's own batches, where an epoch of the script's had ended."""

FETCHING = ("fetch", "iter")

MODULE_CALL = "torch.nn.modules.module.Module."
"""torch's own functions around the call of a module, which is known by its name."""

Frame = tuple[str, int, str, int]
"""File, line, function, and the function's first line (0 when it is not known)."""

Place = tuple[str, int]
"""A file and the first line of a statement."""

NOWHERE: Place = ("", 0)
"""Of a line that no other line of the user's calls."""


class Seen(Struct, frozen=True):
    """Stack samples of one place; `frames` are the user's, the innermost last."""

    phase: str
    frames: tuple[Frame, ...]
    callee: str
    module: str
    count: int
    root: int = -1
    """The root model that ran, -1 where that is not known."""


class Cost(Struct, frozen=True):
    """Milliseconds per step of one place, one phase, one module; `on_device` where they are those of kernels."""

    seen: Seen
    ms: float
    phase: str
    on_device: bool = False


class Traced(Struct, frozen=True):
    """What the recorded operations say of one statement, per step."""

    runs: float | None
    inner_runs: float | None
    ops: float
    op_us: float | None
    torch_share: float | None
    double_share: float | None
    cpu_share: float | None
    operations: tuple[tuple[str, float], ...]


class LineCosts(Struct, frozen=True):
    """What each place costs in a step of the window, and the statement and the trace of each."""

    window: MeasuredWindow
    costs: tuple[Cost, ...]
    statement: Statements
    recorded: RecordedOperations | None
    traced: Mapping[Place, Traced]
    micro_batches: float
    """Batches of a step; less than 1 where several steps are made with each."""

    for_lines: frozenset[Place]
    """Where a for loop begins: what its line calls runs once, however often the line does."""

    is_on_device: bool
    """Whether the device's time is known by line."""

    def share(self, ms: float) -> float:
        return ms / self.window.mean_ms


def line_costs(view: RecordingView) -> LineCosts | None:
    """None without a window or without stack samples."""
    if view.window is None:
        return None
    statement = Statements(view)
    charged = tuple(_charged(list(_costs(view, view.window, statement)), view, statement))
    recorded = recorded_operations(view)
    traced = _traced(recorded, statement) if recorded else {}
    micro_batches = _batches(view) / view.window.steps or 1.0
    return (
        LineCosts(
            view.window, charged, statement, recorded, traced, micro_batches, _for_lines(view), knows_kernels(view)
        )
        if charged
        else None
    )


def _batches(view: RecordingView) -> int:
    """Training batches of the window; of a loop without a loader its backward passes."""
    if view.train is not None:
        return len(view.train_fetches())
    return sum(node.outermost for node, _ in view.in_window("backward"))


def _for_lines(view: RecordingView) -> frozenset[Place]:
    sampled = view.recording.lines.get("lines") if view.recording.lines else None
    loops = sampled["loops"] if sampled else ()
    return frozenset((loop["file"], loop["line"]) for loop in loops if loop["kind"] == "for")


def recorded_operations(view: RecordingView) -> RecordedOperations | None:
    found = view.recording.lines
    return found.get("operations") if found else None


def line_of_operation(view: RecordingView, names: Collection[str]) -> Place | None:
    """The user's line that spent most in operations of these names while they were recorded."""
    spent: Counter[Place] = Counter()
    recorded = recorded_operations(view)
    for row in recorded["rows"] if recorded is not None else ():
        if row["file"]:
            spent[row["file"], row["line"]] += sum(ns for name, _, ns in row["names"] if name in names)
    place, ns = spent.most_common(1)[0] if spent else (("", 0), 0)
    return place if ns else None


def _costs(view: RecordingView, window: MeasuredWindow, statement: Statements) -> Iterator[Cost]:
    """The time of each phase: what kernels take of it at the lines that launched them, the rest divided among the
    phase's samples."""
    fine, coarse = _fine(view), _coarse(view)
    launched = _launched(view, [each for seen in (*fine.values(), *coarse.values()) for each in seen], statement)
    for phase, own_ns in window.parts.phase_ns.items():
        phase_ms = own_ns / window.steps / MS
        kernels = launched.get(phase, [])
        # Kernels of several streams overlap, and the recorded steps are not those of the window.
        kernels_ms = sum(cost.ms for cost in kernels)
        busy_ms = min(phase_ms, kernels_ms)
        yield from (replace(cost, ms=cost.ms * busy_ms / kernels_ms) for cost in kernels if kernels_ms)
        seen = fine.get(phase, [])
        if sum(each.count for each in seen) < ENOUGH:
            seen = [*seen, *coarse.get(phase, [])]
        # Where kernels are known, they tell what each model takes.
        for part, share in _by_root(view, seen) if phase == FORWARD and not kernels else [(seen, 1.0)]:
            total = sum(each.count for each in part)
            for each in part:
                yield Cost(each, (phase_ms - busy_ms) * share * each.count / total, phase)


def _by_root(view: RecordingView, seen: Sequence[Seen]) -> list[tuple[Sequence[Seen], float]]:
    """The samples of forward by root model, each with its part of forward's time, which the calls of the root models
    tell exactly; all together where a part of the time has few samples, or the model of a sample is not known.
    """
    spent = _forward_ns(view)
    total_ns = sum(spent.values())
    by_root: dict[int, list[Seen]] = defaultdict(list)
    for each in seen:
        by_root[each.root].append(each)
    counts = {root: sum(each.count for each in part) for root, part in by_root.items()}
    is_known = set(counts) == {root for root, ns in spent.items() if ns >= LEAST_OF_ROOT * total_ns}
    if len(counts) < 2 or -1 in counts or not is_known or min(counts.values()) < ENOUGH_OF_ROOT:
        return [(seen, 1.0)]
    known_ns = sum(spent[root] for root in counts)
    return [(part, spent[root] / known_ns) for root, part in by_root.items()]


def _forward_ns(view: RecordingView) -> Mapping[int, int]:
    """By root model, the time of forward in the window, without evaluations."""
    found: defaultdict[int, int] = defaultdict(int)
    if view.window is None:
        return found
    for node, own_ns in zip(view.nodes, view.window.parts.own_ns, strict=True):
        if node.phase == FORWARD and not any(one.start_ns <= node.start_ns < one.end_ns for one in view.evaluations):
            outer: EventNode | None = node
            while outer is not None and outer.event.kind != FORWARD:
                outer = outer.parent
            found[outer.event.ref if outer is not None else -1] += own_ns
    return found


def knows_kernels(view: RecordingView) -> bool:
    """Whether the device's time is known by line. Where phases are timed on the host, they are not those in which the
    device works."""
    recorded, window = recorded_operations(view), view.recording.window
    is_timed = window is not None and bool(window.device_clock)
    return is_timed and recorded is not None and any(row.get("device_ns") for row in recorded["rows"])


def _launched(view: RecordingView, sampled: Sequence[Seen], statement: Statements) -> Mapping[str, list[Cost]]:
    """By phase, what the device did in a recorded step for each line and module."""
    found: dict[str, list[Cost]] = defaultdict(list)
    recorded = recorded_operations(view)
    if recorded is None or not knows_kernels(view):
        return found
    stacks: dict[Place, Counter[tuple[Frame, ...]]] = defaultdict(Counter)
    for each in sampled:
        if each.frames:
            stacks[statement.place(each.frames[-1])][each.frames] += each.count
    for row in recorded["rows"]:
        own: tuple[Frame, ...] = ((row["file"], row["line"], row["function"], 0),) if row["file"] else ()
        for kind, ns in row.get("device_ns", {}).items():
            ms, module = ns / recorded["steps"] / MS, row["module"]
            if kind == NODES:
                found[BACKWARD].append(Cost(Seen(BACKWARD, own, "", module, 0), ms, BACKWARD, on_device=True))
                continue
            # The trace knows the line alone; who calls its function, the samples of the line say.
            callers = stacks[statement.place(own[0])] if own else None
            phase = PHASE_OF.get(kind, "other")
            for frames, count in (callers or Counter({own: 1})).items():
                part = ms * count / (callers.total() if callers else 1)
                found[phase].append(Cost(Seen(kind, frames, "", module, count), part, phase, on_device=True))
    return found


def _fine(view: RecordingView) -> Mapping[str, list[Seen]]:
    """Of the live steps, by phase. Once the script got the probe's own batches, fetching tells nothing."""
    sampled = view.recording.lines.get("lines") if view.recording.lines else None
    rows = sampled["rows"] if sampled else []
    is_kept = any(row["phase"] == KEPT for row in rows)
    return _by_phase(
        Seen(
            row["phase"],
            tuple(map(_frame, row["frames"])),
            row["callee"],
            row["module"],
            row["count"],
            row.get("root", -1),
        )
        for row in rows
        if row["phase"] != KEPT and not (is_kept and row["phase"] in FETCHING)
    )


def _frame(frame: Sequence[Any]) -> Frame:
    file, line, function, first = frame
    return file, line, function, first


def _coarse(view: RecordingView) -> Mapping[str, list[Seen]]:
    """Of the window, by phase."""
    return _by_phase(
        Seen(
            sample.phase,
            ((sample.user_file, sample.user_line, sample.user_function, 0),) if sample.user_file else (),
            _callee(sample.leaf_file, sample.leaf_function) if sample.leaf_file != sample.user_file else "",
            "",
            sample.count,
        )
        for sample in view.recording.samples
    )


def _by_phase(seen: Iterable[Seen]) -> Mapping[str, list[Seen]]:
    found = defaultdict(list)
    for each in seen:
        found[PHASE_OF.get(each.phase, "other")].append(each)
    return found


def _callee(file: str, function: str) -> str:
    """ "copy.deepcopy" of /usr/lib/python3.11/copy.py: the path from the last folder of packages on."""
    name = re.split(r"(?:site-packages|dist-packages|python3\.\d+)/", file)[-1]
    return f"{name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}.{function}"


def _charged(costs: Sequence[Cost], view: RecordingView, statement: Statements) -> Iterator[Cost]:
    """The costs, that of the autograd engine at the lines and modules whose nodes it ran.

    The engine runs where the innermost of the user's frames is the one that calls backward. What nobody made (gradients
    that are added up) stays there, as does all where no operation was recorded.
    """
    recorded = recorded_operations(view)
    calls = Counter[Place]()
    for cost in costs:
        if cost.phase == BACKWARD and cost.seen.frames and not cost.on_device:
            calls[statement.place(cost.seen.frames[-1])] += cost.seen.count
    called = {place for place, count in calls.items() if count >= 0.2 * sum(calls.values())}
    # A Python function of the user's that the engine runs is called from the same line as the engine.
    called -= {
        statement.place(cost.seen.frames[-1])
        for cost in costs
        if cost.phase == BACKWARD and any(statement.place(frame) in called for frame in cost.seen.frames[:-1])
    }
    nodes = [row for row in recorded["rows"] if row["backward_ns"] and row["file"]] if recorded else []
    total = recorded["backward_ns"] if recorded else 0
    for cost in costs:
        own = cost.phase == BACKWARD and bool(cost.seen.frames) and not cost.on_device
        if not (own and statement.place(cost.seen.frames[-1]) in called) or not nodes or total <= 0:
            yield cost
            continue
        left = cost.ms
        for row in nodes:
            ms = cost.ms * row["backward_ns"] / total
            left -= ms
            frames = ((row["file"], row["line"], row["function"], 0),)
            yield Cost(Seen(BACKWARD, frames, "", row["module"], 0), ms, BACKWARD)
        yield Cost(cost.seen, max(0.0, left), BACKWARD)


def hot_lines(found: LineCosts) -> tuple[HotLine, ...]:
    """The lines, those that cost most first."""
    by_place: dict[Place, list[Cost]] = defaultdict(list)
    for cost in found.costs:
        if cost.seen.frames:
            by_place[found.statement.place(cost.seen.frames[-1])].append(cost)
    lines = [_line(place, own, found) for place, own in by_place.items()]
    return tuple(sorted(lines, key=lambda line: -line.share))


def _line(place: Place, costs: Sequence[Cost], found: LineCosts) -> HotLine:
    statement, traced = found.statement, found.traced.get(place)
    phases, callees, functions, modules = (totals() for _ in range(4))
    calls: defaultdict[Place, float] = defaultdict(float)
    backward_ms = 0.0
    for cost in costs:
        if cost.phase == BACKWARD and not cost.seen.count:
            backward_ms += cost.ms
        else:
            phases[cost.phase] += cost.ms
            calls[_caller(cost.seen.frames, statement)] += cost.ms
            callees["" if cost.seen.callee.startswith(MODULE_CALL) else cost.seen.callee] += cost.ms
        functions[_named_function(cost.seen.frames)] += cost.ms
        modules[collapsed(cost.seen.module)] += cost.ms
    own_ms = sum(phases.values())
    device_ms = sum(cost.ms for cost in costs if cost.on_device)
    own_device_ms = sum(cost.ms for cost in costs if cost.on_device and cost.seen.count)
    callee, ms = most_first(callees)[0] if callees else ("", 0.0)
    seen = {name: getattr(traced, name) for name in Traced.__struct_fields__} if traced else {}
    if traced and traced.torch_share is not None and traced.op_us is not None and own_ms:
        # The trace slows Python down, the profiler the operations: the larger part claims less.
        in_torch = max(traced.torch_share, min(1.0, traced.ops * traced.op_us / 1e3 / own_ms))
        seen["torch_share"] = (own_device_ms + (own_ms - own_device_ms) * in_torch) / own_ms
    return HotLine(
        file=place[0],
        line=place[1],
        end_line=statement.last(place),
        function=most_first(functions)[0][0],
        share=found.share(own_ms + backward_ms),
        phase_ms=dict(most_first(phases)),
        backward_ms=backward_ms,
        device_ms=device_ms if found.is_on_device else None,
        callee=callee if ms >= own_ms / 2 else "",
        modules=tuple(name for name, _ in most_first(modules)[:3] if name),
        callers=_callers(calls, own_ms),
        repeated_by=_repeated_by(place, [cost for cost in costs if cost.seen.count], found),
        **seen,
    )


def _caller(frames: Sequence[Frame], statement: Statements) -> Place:
    """The line that calls the innermost function; none of a script's top level, from which all comes."""
    outer = next((frame for frame in reversed(frames[:-1]) if not is_inner(frame[2])), None)
    return statement.place(outer) if outer is not None and outer[2] != "<module>" else NOWHERE


def _callers(calls: Mapping[Place, float], own_ms: float) -> tuple[Caller, ...]:
    ranked = sorted(calls.items(), key=lambda item: -item[1])[:MOST_CALLERS]
    return tuple(Caller(*place, ms / own_ms) for place, ms in ranked if place != NOWHERE and own_ms)


def _repeated_by(place: Place, costs: Sequence[Cost], found: LineCosts) -> RepeatedCall | None:
    """The outermost line that leads to `costs` and runs several times for a micro-batch; None where few come by one."""
    spent: defaultdict[tuple[Place, float], float] = defaultdict(float)
    for cost in costs:
        repeated = (each for each in _run_counts(cost.seen.frames, found) if each[1] >= SEVERAL * found.micro_batches)
        spent[next(repeated, (NOWHERE, 1.0))] += cost.ms
    all_ms, once_ms = sum(spent.values()), spent.pop((NOWHERE, 1.0), 0.0)
    most, often = max(spent, key=lambda call: spent[call], default=(NOWHERE, 1.0))
    if most in (NOWHERE, place) or all_ms - once_ms < MOST_OF * all_ms:
        return None
    return RepeatedCall(*most, often / found.micro_batches)


def _run_counts(frames: Sequence[Frame], found: LineCosts) -> Iterator[tuple[Place, float]]:
    """The lines of a stack, the outermost first, and how often each runs in a step."""
    for frame in frames:
        place = found.statement.place(frame)
        traced = found.traced.get(place)
        often = None if traced is None else traced.inner_runs if is_inner(frame[2]) else traced.runs
        if often and place not in found.for_lines:
            yield place, often


def totals() -> defaultdict[str, float]:
    return defaultdict(float)


def most_first(spent: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(spent.items(), key=lambda item: -item[1])


def _named_function(frames: Sequence[Frame]) -> str:
    """Of a comprehension, the function that it stands in."""
    return next((name for _, _, name, _ in reversed(frames) if not is_inner(name)), "")


def place_name(file: str, line: int, function: str) -> str:
    """ "sample (dqn.py:70)", "train.py:12" at module level."""
    where = f"{PurePath(file).name}:{line}"
    return f"{function} ({where})" if function and function != "<module>" else where


def collapsed(module: str) -> str:
    """ "encoder.layers.*.norm" of "encoder.layers.3.norm"."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)", "*", module)


def module_names(view: RecordingView) -> Iterator[ModuleName]:
    for part in _parts(view):
        yield from part["modules"]


def _parts(view: RecordingView) -> tuple[SampledLines | RecordedOperations, ...]:
    found = view.recording.lines or {}
    return tuple(part for part in (found.get("lines"), found.get("operations")) if part is not None)


def _traced(recorded: RecordedOperations, statement: Statements) -> Mapping[Place, Traced]:
    is_on_device = any(row.get("device_ns") for row in recorded["rows"])
    by_place: dict[Place, list[LineOperations]] = defaultdict(list)
    for row in recorded["rows"]:
        if row["file"]:
            by_place[statement.place((row["file"], row["line"], "", 0))].append(row)
    counts: dict[Place, dict[tuple[int, str], int]] = defaultdict(dict)
    for run in recorded["runs"]:
        counts[statement.place((run["file"], run["line"], "", 0))][run["line"], run["function"]] = run["count"]
    return {
        place: _of_statement(
            by_place.get(place, []), counts.get(place, {}), recorded["steps"], is_on_device=is_on_device
        )
        for place in {*by_place, *counts}
    }


def _of_statement(
    rows: Sequence[LineOperations], counts: Mapping[tuple[int, str], int], steps: int, *, is_on_device: bool
) -> Traced:
    """The first of several lines begins anew after each of the others: the least count is the statement's."""
    plain = [count for (_, function), count in counts.items() if not is_inner(function)]
    inner = [count for (_, function), count in counts.items() if is_inner(function)]
    ops, op_ns = sum(row["ops"] for row in rows), sum(row["op_ns"] for row in rows)
    host_ns = sum(row["host_ns"] for row in rows)
    names: Counter[str] = Counter()
    for row in rows:
        for name, _, own_ns in row["names"]:
            names[name] += own_ns
    all_ns = sum(row.get("took_ns", row["op_ns"] + row["backward_ns"]) for row in rows)
    return Traced(
        runs=min(plain) / steps if plain else None,
        inner_runs=max(inner) / steps if inner else None,
        ops=ops / steps,
        op_us=op_ns / ops / 1e3 if ops else None,
        torch_share=min(1.0, op_ns / host_ns) if host_ns else None,
        double_share=min(1.0, sum(row["double_ns"] for row in rows) / all_ns) if all_ns else None,
        cpu_share=_cpu_share(rows) if is_on_device else None,
        operations=tuple((name, ns / all_ns) for name, ns in _top_operations(names)) if all_ns else (),
    )


def _cpu_share(rows: Sequence[LineOperations]) -> float | None:
    """None where it was not noted."""
    spent, op_ns = [row.get("cpu_ns") for row in rows], sum(row["op_ns"] for row in rows)
    return sum(ns or 0 for ns in spent) / op_ns if op_ns and None not in spent else None


def is_inner(function: str) -> bool:
    return function.startswith("<") and function != "<module>"


class Statements:
    """The statement that a line belongs to, where it has several lines; the innermost one."""

    def __init__(self, view: RecordingView) -> None:
        self._last: dict[Place, int] = {}
        self._first: dict[tuple[str, int], int] = {}
        spans = {(span[0], span[1], span[2]) for part in _parts(view) for span in part["statements"]}
        for file, first, last in sorted(spans, key=lambda span: span[1] - span[2]):
            self._last[file, first] = last
            for line in range(first, last + 1):
                self._first[file, line] = first

    def place(self, frame: Frame) -> Place:
        file, line, *_ = frame
        return file, self._first.get((file, line), line)

    def last(self, place: Place) -> int:
        return self._last.get(place, place[1])


def _top_operations(names: Counter[str]) -> Iterator[tuple[str, float]]:
    """The operations that take most, and TABLE_GRADIENT."""
    most = names.most_common(MOST_OPERATIONS)
    yield from most
    if names[TABLE_GRADIENT] and TABLE_GRADIENT not in dict(most):
        yield TABLE_GRADIENT, names[TABLE_GRADIENT]


def operation_words(operation: str) -> set[str]:
    """{"convolution", "backward"} of "aten::convolution_backward"; a count of dimensions is left out ("conv2d")."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operation.split("::")[-1]).lower()
    return {re.sub(r"\d+d?$", "", word) for word in re.split(r"[^a-z0-9]+", apart)}
