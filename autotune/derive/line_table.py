"""The table of a step's lines and modules, as the report has it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from autotune.derive.hot_function import hot_function
from autotune.derive.lines import Cost, collapsed, hot_lines, line_costs, module_names, most_first, totals
from autotune.derive.recording_view import MeasuredWindow, RecordingView
from autotune.model.report import HotModule, LineTable

MOST_LINES = 40
"""And as many modules."""


def table(view: RecordingView) -> LineTable | None:
    """The lines and modules of a step; None without a window or without stack samples."""
    found = line_costs(view)
    if found is None:
        return None
    known = sum(cost.ms for cost in found.costs if cost.seen.frames or cost.seen.module)
    recorded = found.recorded
    ops = [row["ops"] for row in recorded["rows"]] if recorded else []
    op_ns = sum(row["op_ns"] for row in recorded["rows"]) if recorded else 0
    every = LineTable(
        lines=hot_lines(found)[:MOST_LINES],
        modules=_modules(found.costs, found.window, view),
        known_share=min(1.0, known / found.window.mean_ms),
        ops=sum(ops) / recorded["steps"] if recorded and ops else None,
        op_us=op_ns / sum(ops) / 1e3 if sum(ops) else None,
    )
    return replace(every, function=hot_function(found, every.hottest))


def _modules(costs: Sequence[Cost], window: MeasuredWindow, view: RecordingView) -> tuple[HotModule, ...]:
    types = {collapsed(row["name"]): row["type"] for row in module_names(view)}
    shares = totals()
    for cost in costs:
        if cost.seen.module:
            shares[collapsed(cost.seen.module)] += cost.ms / window.mean_ms
    return tuple(HotModule(name, types.get(name, ""), share) for name, share in most_first(shares)[:MOST_LINES])
