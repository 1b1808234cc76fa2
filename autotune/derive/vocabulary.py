"""What the unused rows of an embedding cost, in the table and in the layers that score all of its rows."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.lines import LineCosts, collapsed
from autotune.derive.recording_view import RecordingView
from autotune.derive.row_facts import calling_line, inside
from autotune.model.evidence import RUN, Fact, Location


def facts(view: RecordingView, found: LineCosts) -> Iterator[Fact]:
    """Facts `vocabulary.*`, of the table whose unused rows cost most; nothing where calls of tables were not noted."""
    compared = view.recording.lines.get("rows") if view.recording.lines else None
    if compared is None or "vocabularies" not in compared:
        return
    wasted = []
    for row in compared["vocabularies"]:
        costs = [cost for name in (row["name"], *row["heads"]) for cost in inside(name, found)]
        beyond = 1 - (row["largest"] + 1) / row["rows"]
        if row["heads"]:
            wasted.append((beyond * found.share(sum(cost.ms for cost in costs)), beyond, row, costs))
    if not wasted:
        yield Fact("vocabulary.share", RUN, 0.0)
        return
    share, beyond, row, costs = max(wasted, key=lambda one: one[0])
    place = calling_line(costs, found)
    yield Fact("vocabulary.share", RUN, share, (Location(*place),) if place else ())
    yield Fact("vocabulary.unused_share", RUN, beyond)
    yield Fact("vocabulary.module", RUN, collapsed(row["name"]))
    yield Fact("vocabulary.rows", RUN, row["rows"])
    yield Fact("vocabulary.largest", RUN, row["largest"])
    yield Fact("vocabulary.ids", RUN, row["ids"])
