"""One JSON object, schema 1, described by `watch.schema.json` beside this file. An unknown value is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

from autotune import __version__
from autotune.model.watched import WatchedRow, WatchedRuns
from autotune.report.json.encode import SCHEMA, dumps

if TYPE_CHECKING:
    from autotune.report.json import documents as doc


def render(runs: WatchedRuns, colour: bool, width: int) -> str:
    """The object in one line. Keys keep the order of the schema."""
    return dumps(document(runs))


def document(runs: WatchedRuns) -> doc.WatchDocument:
    """The runs as plain values."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "autotune", "version": __version__},
        "processes": list(map(_row, runs.rows)),
        "unreadable": dict(runs.unreadable),
        "left_out": runs.left_out,
    }


def _row(row: WatchedRow) -> doc.WatchRow:
    return {
        "folder": str(row.folder),
        "life": row.life,
        "seen_s": row.seen_s,
        "idle_s": row.idle_s,
        "state": to_builtins(row.process, builtin_types=()),
    }
