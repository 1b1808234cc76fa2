"""Places of a run of a notebook: measured as lines of the script that its cells make, reported as lines of cells.

A Location gets the line of the file beside its cell, for editors. Lines that were measured, and places in sentences,
are named by the notebook with the cell and the line in it: "train.ipynb cell 4:3".
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import fields, replace

from autotune import reading
from autotune.errors import UsageError
from autotune.model.evidence import Evidence, Location
from autotune.model.report import CellLines, Report
from autotune.model.source import NOTEBOOK
from autotune.syntax import notebook

Rows = Mapping[int, tuple[int, int, int]]
"""The line of the file, the cell and the line in it, by the line of the script."""


def cell_lines(script: Path | None) -> CellLines | None:
    """The lines of the notebook that a command runs; None for any other script, and where it cannot be read."""
    if script is None or script.suffix != NOTEBOOK:
        return None
    path = os.path.normpath(script)
    try:
        lines = notebook.read(reading.read(path, follow=True), path).lines
    except (OSError, UsageError):
        return None
    return CellLines(path, tuple((line, at.line, at.cell, at.cell_line) for line, at in lines.items()))


def in_cells(report: Report) -> Report:
    """The report with the cells of all places in the notebook that was run, if one was."""
    cells = report.run.cells
    return _Placer(cells).report(report) if cells is not None else report


class _Placer:
    """Changes the places of one notebook."""

    def __init__(self, cells: CellLines) -> None:
        self.file = cells.file
        self.rows: Rows = {line: (of_file, cell, of_cell) for line, of_file, cell, of_cell in cells.lines}
        name = re.escape(os.path.basename(cells.file))  # noqa: PTH119
        self.place = re.compile(rf"(?<![\w-])({name}):(\d+)")

    def report(self, report: Report) -> Report:
        names = (one.name for one in fields(report) if one.name not in ("run", "evidence"))
        placed = replace(report, **{name: self.value(getattr(report, name)) for name in names})
        return replace(placed, evidence=self.evidence(report.evidence))

    def evidence(self, evidence: Evidence) -> Evidence:
        settings = {
            key: replace(one, location=one.location and self.location(one.location))
            for key, one in evidence.settings.items()
        }
        places = {key: tuple(map(self.location, each)) for key, each in evidence.places.items()}
        return replace(evidence, settings=settings, places=places)

    def value(self, value: Any) -> Any:
        """The value with all places in it; the same one where it has none."""
        if isinstance(value, str):
            return self.place.sub(self._named, value)
        if isinstance(value, Location):
            return self.location(value)
        if isinstance(value, tuple):
            return tuple(map(self.value, value))
        if isinstance(value, dict):
            return {key: self.value(each) for key, each in value.items()}
        return self._struct(value) if isinstance(value, Struct) else value

    def location(self, at: Location) -> Location:
        row = self.rows.get(at.line) if at.file == self.file and not at.cell else None
        if row is None:
            return at
        end = self.rows.get(at.end_line, (0, 0, 0))
        return replace(at, line=row[0], column=0, end_line=end[0], cell=row[1], cell_line=row[2])

    def _struct(self, value: Struct) -> Struct:
        old = {one.name: getattr(value, one.name) for one in fields(value)}
        changed = {name: new for name, one in old.items() if (new := self.value(one)) != one}
        row = self.rows.get(getattr(value, "line", 0)) if getattr(value, "file", "") == self.file else None
        if row is not None:
            changed |= {"file": f"{self.file} cell {row[1]}", "line": row[2]}
            end = self.rows.get(getattr(value, "end_line", 0))
            changed |= {"end_line": end[2]} if end is not None and end[1] == row[1] else {}
        return replace(value, **changed) if changed else value

    def _named(self, found: re.Match[str]) -> str:
        row = self.rows.get(int(found[2]))
        return f"{found[1]} cell {row[1]}:{row[2]}" if row is not None else found[0]
