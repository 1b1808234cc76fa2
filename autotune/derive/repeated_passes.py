"""Backward passes that one line starts several times over the same graph: what the repetitions cost."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.lines import BACKWARD, LineCosts, place_name
from autotune.derive.loop_facts import is_training_loop
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.recording_sections import RepeatedPasses


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
    yield Fact("repeated_backward.share", RUN, min(1.0, share), places)
    yield Fact("repeated_backward.where", RUN, place_name(file, line, function), places)
    yield Fact("repeated_backward.passes", RUN, most["passes"], places)
    yield Fact("repeated_backward.is_carried", RUN, _is_carried(most, found), places)


def _is_carried(passes: RepeatedPasses, found: LineCosts) -> bool:
    """Whether the innermost loop that starts them takes something over from one iteration to the next: it may be what
    the pass before gave, as in a power iteration. False where a library's loop starts them (a Jacobian)."""
    loops = [loop for loop in passes["loops"] if not is_training_loop(loop, found)]
    around = [
        loop
        for file, line, *_ in reversed(passes["frames"])
        for loop in sorted(loops, key=lambda one: one["last"] - one["line"])
        if loop["file"] == file and loop["line"] <= line <= loop["last"]
    ]
    return bool(around and around[0]["carried"])
