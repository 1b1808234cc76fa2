"""Facts of the loops of the script that cost most: how often they run, and whether an iteration needs another one's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct

from autotune.derive.lines import Cost, LineCosts, Place, collapsed, module_names, place_name
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import Value
from autotune.model.recording_sections import Loop

LEAST_SHARE = 0.03
"""Of the step: what costs less gets no facts."""

CELLS = ("LSTMCell", "GRUCell", "RNNCell")

LoopValues = tuple[Loop, dict[str, Value | None]]


class _Inside(Struct, frozen=True):
    """What a loop holds of a step: its ms with the backward pass, those without by phase, and the modules that ran."""

    ms: float
    phases: Mapping[str, float]
    ops: float
    op_ms: float
    modules: frozenset[str]


def loops(view: RecordingView, found: LineCosts) -> list[LoopValues]:
    """Loops of several iterations in a step, those that cost most first; of nested ones each."""
    sampled = view.recording.lines.get("lines") if view.recording.lines else None
    recorded = found.recorded
    if sampled is None or recorded is None:
        return []
    known = []
    for loop in sampled["loops"]:
        runs = _iterations(loop, found)
        if runs is None or runs < 2 or is_training_loop(loop, found):
            continue
        inside = _inside(loop, found)
        share = found.share(inside.ms)
        if share < LEAST_SHARE:
            continue
        known.append((share, loop, (runs, _length(loop, runs, found)), inside))
    return [
        (loop, _of_loop(loop, *runs, inside, share, view)) for share, loop, runs, inside in sorted(known, key=_first)
    ]


def is_training_loop(loop: Loop, found: LineCosts) -> bool:
    """Whether batches are fetched in it, beside other work, or weights are updated: accumulation, several updates."""
    phases = {
        cost.phase
        for cost in found.costs
        for file, line, *_ in cost.seen.frames
        if cost.seen.count and file == loop["file"] and loop["line"] <= line <= loop["last"]
    }
    return "optimizer" in phases or ("data_wait" in phases and len(phases) > 1)


def _first(found: tuple[float, Loop, tuple[float, float], _Inside]) -> float:
    return -found[0]


def _of_loop(
    loop: Loop, runs: float, length: float, inside: _Inside, share: float, view: RecordingView
) -> dict[str, Value | None]:
    is_cuda = view.recording.device_type == "cuda"
    types = {row["name"]: row["type"] for row in module_names(view)}
    cells = sorted({types[name] for name in inside.modules if types.get(name) in CELLS})
    kinds = {collapsed(name) for name in inside.modules}
    return {
        "where": place_name(loop["file"], loop["line"], ""),
        "share": share,
        "phase": max(inside.phases, key=lambda phase: inside.phases[phase]) if inside.phases else "backward",
        "runs": runs,
        "length": length,
        "ops": inside.ops,
        # On CUDA an operation takes the CPU as long as its launch does, whatever the kernel computes.
        "op_us": inside.op_ms * 1e3 / inside.ops if inside.ops and not is_cuda else None,
        "is_carried": bool(loop["carried"]),
        "carried": ", ".join(name for name in loop["carried"] if name) or "none",
        "cell": ", ".join(cells) or "none",
        "feeds_back": bool(loop["fed_back"]) or loop["kind"] == "while",
        # A loop over layers runs other modules in each iteration.
        "is_over_modules": len(inside.modules) > len(kinds) and len(inside.modules) >= runs / 2,
    }


def _iterations(loop: Loop, found: LineCosts) -> float | None:
    place = found.statement.place((loop["file"], loop["body"], "", 0))
    traced = found.traced.get(place)
    if traced is None:
        return None
    if loop["kind"] == "comprehension" and traced.inner_runs is not None:
        return traced.inner_runs
    return traced.runs  # Python 3.12 has no frame for most comprehensions


def _length(loop: Loop, runs: float, found: LineCosts) -> float:
    """Iterations each time that the loop is entered."""
    header = found.traced.get(found.statement.place((loop["file"], loop["line"], "", 0)))
    if header is None or header.runs is None:
        return runs
    # The line of a for loop runs once more than its body; that of a comprehension once.
    entered = header.runs if loop["kind"] == "comprehension" else header.runs - runs
    return runs / max(1.0, entered)


def _inside(loop: Loop, found: LineCosts) -> _Inside:
    """The costs that were sampled inside the loop; the backward pass and the operations of a place by the part of its
    own samples that was."""
    own: dict[Place, float] = defaultdict(float)
    all_ms: dict[Place, float] = defaultdict(float)
    phases: dict[str, float] = defaultdict(float)
    modules: set[str] = set()
    for cost in found.costs:
        if not cost.seen.frames or not cost.seen.count:
            continue
        place = found.statement.place(cost.seen.frames[-1])
        all_ms[place] += cost.ms
        if is_inside(loop, cost):
            own[place] += cost.ms
            phases[cost.phase] += cost.ms
            modules |= {cost.seen.module} if cost.seen.module else set()
    parts = {place: ms / all_ms[place] for place, ms in own.items() if all_ms[place]}
    charged = sum(
        cost.ms * parts.get(found.statement.place(cost.seen.frames[-1]), 0.0)
        for cost in found.costs
        if cost.seen.frames and not cost.seen.count
    )
    traced = [(found.traced[place], part) for place, part in parts.items() if place in found.traced]
    return _Inside(
        ms=sum(own.values()) + charged,
        phases=phases,
        ops=sum(one.ops * part for one, part in traced),
        op_ms=sum(one.ops * (one.op_us or 0.0) / 1e3 * part for one, part in traced),
        modules=frozenset(modules),
    )


def is_inside(loop: Loop, cost: Cost) -> bool:
    """Whether one of its frames stands in the body of the loop, of a comprehension in its lines."""
    first = loop["line"] if loop["kind"] == "comprehension" else loop["body"]
    return any(file == loop["file"] and first <= line <= loop["last"] for file, line, *_ in cost.seen.frames)
