"""Backward passes that go several times through one graph, because one line starts them or because they derive one
output: what the repetitions cost."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.lines import BACKWARD, LineCosts, place_name
from autotune.derive.loop_facts import is_training_loop
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.recording_sections import DerivedOneByOne, Loop, RepeatedPasses

OF_TORCH = "autograd"
CALL_BACKWARD = (
    "",
    OF_TORCH,
    "torch",
    "accelerate",
    "deepspeed",
    "lightning",
    "lightning_fabric",
    "pytorch_lightning",
    "transformers",
)
"""Packages that call backward once, and torch's derivatives. Another library may be a solver with a loop of its own."""


def facts(found: LineCosts) -> Iterator[Fact]:
    """Facts `repeated_backward.*`, of the stack whose repetitions cost most; nothing where passes were not recorded."""
    recorded = found.recorded
    if recorded is None or "repeated_passes" not in recorded:
        return
    most = next(iter(recorded["repeated_passes"]), None)
    if most is None or not recorded["backward_ns"]:
        yield Fact("repeated_backward.share", RUN, 0.0)
        return
    backward_ms = sum(cost.ms for cost in found.costs if cost.phase == BACKWARD)
    file, line, function, _ = most["frames"][-1]
    places = (Location(*found.statement.place((file, line, "", 0))),)
    share = found.share(backward_ms * most["again_ns"] / recorded["backward_ns"])
    yield Fact("repeated_backward.share", RUN, share, places)
    yield Fact("repeated_backward.where", RUN, place_name(file, line, function), places)
    yield Fact("repeated_backward.passes", RUN, most["passes"], places)
    if most.get("nodes"):
        yield Fact("repeated_backward.are_of_columns", RUN, most["are_of_columns"], places)
        if not found.is_on_device:  # there a node takes the host as long as its launches do, however much it computes
            yield Fact("repeated_backward.node_us", RUN, most["again_ns"] / most["nodes"] / 1000, places)
    is_carried = _is_carried(most, found)
    if is_carried is not None:
        yield Fact("repeated_backward.is_carried", RUN, is_carried, places)


def one_by_one(found: LineCosts) -> Iterator[Fact]:
    """Facts `one_by_one.*`, of all outputs together, at the calls whose repetitions cost most; nothing where that was
    not recorded."""
    recorded = found.recorded
    if recorded is None or "derived_one_by_one" not in recorded:
        return
    rows = recorded["derived_one_by_one"]
    if not rows or not recorded["backward_ns"]:
        yield Fact("one_by_one.share", RUN, 0.0)
        return
    backward_ms = sum(cost.ms for cost in found.costs if cost.phase == BACKWARD)
    places = tuple(_calls(row, found) for row in rows)
    again_ns = sum(row["again_ns"] for row in rows)
    file, line, function = rows[0]["lines"][0]
    yield Fact("one_by_one.share", RUN, found.share(backward_ms * again_ns / recorded["backward_ns"]), places)
    yield Fact("one_by_one.where", RUN, place_name(file, line, function), places)
    yield Fact("one_by_one.passes", RUN, rows[0]["passes"], places)


def _calls(row: DerivedOneByOne, found: LineCosts) -> Location:
    """From the first call of a function to the last one in it."""
    file, first, function = row["lines"][0]
    last = max(line for other, line, name in row["lines"] if (other, name) == (file, function))
    start = found.statement.place((file, first, "", 0))
    return Location(*start, end_line=max(last, start[1]))


def _is_carried(passes: RepeatedPasses, found: LineCosts) -> bool | None:
    """Whether a loop that starts them takes a value over from one iteration to the next: the value may be the result of
    the pass before, as in a power iteration. None where the loop is not seen, as that of a library's solver."""
    _, line, *_ = passes["frames"][passes["looping_frame"]]
    around = [loop for loop in passes["loops"] if _is_in_body(line, loop) and not is_training_loop(loop, found)]
    if passes["callee"] not in CALL_BACKWARD:
        return None
    if around:
        return any(loop["carried"] for loop in around)
    return False if passes["callee"] == OF_TORCH else None


def _is_in_body(line: int, loop: Loop) -> bool:
    """The header of a for loop runs once, for all iterations."""
    return (loop["body"] if loop["kind"] == "for" else loop["line"]) <= line <= loop["last"]
