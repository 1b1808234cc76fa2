"""What a window's steps are made of: each instant belongs to the innermost event around it.

As `derive/timeline.py` splits a window, which reads the Recordings of a diagnosis: a test holds both to the same.
"""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..shapes import Event

PHASE_OF = {
    "iter": "data_wait",
    "fetch": "data_wait",
    "h2d": "h2d",
    "forward": "forward",
    "recompute": "recompute",
    "backward": "backward",
    "optimizer": "optimizer",
    "closure": "other",
    "collective": "communication",
    "checkpoint": "checkpoint",
    "evaluation": "evaluation",
    "logging": "logging",
}
"""As in derive/timeline.py: any other kind stays in the phase of what encloses it."""

WORDS = {
    "data_wait": "data wait",
    "h2d": "copy to the device",
    "recompute": "recomputation",
    "other": "the script's own code",
}
"""Phases that have no word of their own in a sentence."""


def word(phase: str) -> str:
    """The phase in a sentence."""
    return WORDS.get(phase, phase)


def by_step(events: Sequence[Event], edges: Sequence[int]) -> list[dict[str, int]]:
    """Nanoseconds of each phase that was seen between each two of `edges`, which are in order. "other" is the rest.

    What an evaluation does is evaluation, but for saves.
    """
    rows: list[dict[str, int]] = [{} for _ in edges[1:]]
    open_events: list[tuple[int, str]] = []  # (end, phase), the innermost last
    now = edges[0]

    def advance(to: int) -> None:
        nonlocal now
        phase = open_events[-1][1] if open_events else "other"
        to = min(to, edges[-1])
        while now < to:
            place = bisect_right(edges, now) - 1
            until = min(to, edges[place + 1])
            rows[place][phase] = rows[place].get(phase, 0) + until - now
            now = until

    for kind, start, end, _, _ in sorted(events, key=lambda event: (event[1], -event[2])):
        while open_events and open_events[-1][0] <= start:
            advance(open_events[-1][0])
            open_events.pop()
        advance(start)
        around = open_events[-1] if open_events else None
        phase = PHASE_OF.get(kind, around[1] if around is not None else "other")
        if around is not None and around[1] == "evaluation" and phase != "checkpoint":
            phase = "evaluation"
        open_events.append((end if around is None else min(end, around[0]), phase))
    while open_events:
        advance(open_events[-1][0])
        open_events.pop()
    advance(edges[-1])
    return rows


def mean_ms(rows: Sequence[dict[str, int]]) -> dict[str, float]:
    """Milliseconds of each phase per step, the longest first, without the slowest tenth of the steps."""
    kept = sorted(rows, key=lambda row: sum(row.values()))[: len(rows) - len(rows) // 10]
    totals: dict[str, int] = {}
    for row in kept:
        for phase, spent in row.items():
            totals[phase] = totals.get(phase, 0) + spent
    return {phase: totals[phase] / len(kept) / 1e6 for phase in sorted(totals, key=lambda phase: -totals[phase])}
