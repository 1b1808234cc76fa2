"""Ranks against one another: who keeps the others waiting, and in which phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median_low

from autotune.derive.view import View
from autotune.model.evidence import RUN, Fact

OWN = ("data_wait", "h2d", "forward", "logging", "checkpoint")
"""Phases without communication. Backward holds the all-reduce, in which a fast rank waits for the slowest,
and so does "other" where the loss is gathered; the phases here are each rank's own work."""


def facts(views: Sequence[View]) -> Iterator[Fact]:
    """Facts `ranks.*` from the views in the order of the ranks; nothing unless two ranks were measured.

    The median is the lower one, so that of two ranks the slower is compared with the faster.
    """
    own = {int(view.recording.process["rank"]): _own_ms(view) for view in views if view.window is not None}
    if len(own) < 2:
        return
    totals = {rank: sum(phases.values()) for rank, phases in own.items()}
    slowest = max(totals, key=lambda rank: totals[rank])
    middle = median_low(totals.values())
    yield Fact("ranks.slowest", RUN, slowest)
    yield Fact("ranks.spread_ms", RUN, totals[slowest] - middle)
    if middle > 0:
        yield Fact("ranks.spread_share", RUN, (totals[slowest] - middle) / middle)
    yield Fact("ranks.slowest_cause", RUN, _cause(own, slowest))


def _own_ms(view: View) -> Mapping[str, float]:
    return {phase: (view.window.phase_ms(phase) or 0.0) if view.window else 0.0 for phase in OWN}


def _cause(own: Mapping[int, Mapping[str, float]], slowest: int) -> str:
    return max(OWN, key=lambda phase: own[slowest][phase] - median_low(row[phase] for row in own.values()))
