"""Backward passes that one line starts several times over the same graph: what the repetitions cost."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.lines import BACKWARD, LineCosts, place_name
from autotune.derive.loop_facts import is_training_loop
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.recording_sections import Loop, RepeatedPasses

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
    is_carried = _is_carried(most, found)
    if is_carried is not None:
        yield Fact("repeated_backward.is_carried", RUN, is_carried, places)


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
