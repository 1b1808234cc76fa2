"""Weights that torch.nn.utils.parametrize computes again at each use: in a loop over time, many times in a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from autotune.derive.lines import LineCosts, Place, collapsed
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact, Location

LIST = ".parametrizations."
"""What torch puts between the name of a module and that of its parametrized weight."""


def facts(view: RecordingView, found: LineCosts) -> Iterator[Fact]:
    """Facts `parametrization.*`; nothing where the calls of modules were not counted.

    The share covers all weights that are computed more than once for a micro-batch, less the first time of each.
    Name and place belong to the weight with the largest part of it.
    """
    calls = _calls(view, found)
    if calls is None:
        return
    again: dict[str, float] = defaultdict(float)
    places: dict[str, dict[Place, float]] = defaultdict(lambda: defaultdict(float))
    for cost in found.costs:
        weight = _weight(cost.seen.module)
        times = calls.get(weight, 0.0) if weight else 0.0
        if times > 1:
            again[weight] += found.share(cost.ms) * (1 - 1 / times)
            if cost.seen.frames:
                places[weight][found.statement.place(cost.seen.frames[-1])] += cost.ms
    if not again:
        yield Fact("parametrization.share", RUN, 0.0)
        return
    most = max(again, key=lambda weight: again[weight])
    own = places[most]
    at = (Location(*max(own, key=lambda place: own[place])),) if own else ()
    yield Fact("parametrization.share", RUN, sum(again.values()), at)
    yield Fact("parametrization.weight", RUN, f".{most}".replace(LIST, ".").removeprefix("."), at)
    yield Fact("parametrization.calls", RUN, calls[most], at)


def _calls(view: RecordingView, found: LineCosts) -> dict[str, float] | None:
    """How often each weight is computed for a micro-batch; of layers that have one name, the least often of them."""
    sampled = view.recording.lines.get("lines") if view.recording.lines else None
    if sampled is None or not all("calls" in row for row in sampled["modules"]):
        return None
    calls: dict[str, float] = {}
    for row in sampled["modules"]:
        name = collapsed(row["name"])
        if _weight(name) == name:
            times = row["calls"] / sampled["steps"] / found.micro_batches
            calls[name] = min(times, calls.get(name, times))
    return calls


def _weight(module: str) -> str:
    """The name of a weight ("cell.parametrizations.weight") from that of the module that computes it; "" of others."""
    owner, found, rest = f".{module}".rpartition(LIST)
    return f"{owner}{found}{rest.split('.')[0]}".removeprefix(".") if found else ""
