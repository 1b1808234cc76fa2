"""Places in notebooks, which are read as scripts, as places of their files and cells: what a report shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from msgspec.structs import replace

from autotune import reading
from autotune.errors import UsageError
from autotune.model.checked import CheckedBundle
from autotune.model.evidence import Location
from autotune.model.finding import Finding
from autotune.model.scanned import Bundle, ScanNote
from autotune.model.source import NOTEBOOK
from autotune.syntax import notebook

Placed = Callable[[Location], Location]
"""A place in a notebook with the file's own line, and the cell; any other place as it is."""

_LINE = re.compile(rf"(.*{re.escape(NOTEBOOK)}):(\d+)(?::\d+)?")


def in_cells(
    bundles: Sequence[CheckedBundle], notes: Sequence[ScanNote], root: Path
) -> tuple[list[CheckedBundle], tuple[ScanNote, ...]]:
    """The bundles and notes with the cells of all places in notebooks below `root`."""
    read = cache(partial(_read, root))

    def placed(at: Location) -> Location:
        found = read(at.file) if at.file.endswith(NOTEBOOK) else None
        return found.located(at) if found is not None else at

    has_any = [any(name.endswith(NOTEBOOK) for name in each.bundle.files) for each in bundles]
    moved = [_of_bundle(each, placed) if has else each for each, has in zip(bundles, has_any, strict=True)]
    return moved, tuple(_of_note(note, placed) for note in notes)


def script(name: str, data: bytes) -> bytes:
    """The text whose lines places of the file `name` count: of a notebook that of its script."""
    if not name.endswith(NOTEBOOK):
        return data
    try:
        return notebook.read(data, name).script
    except UsageError:
        return b""


def _read(root: Path, name: str) -> notebook.Notebook | None:
    """None where the notebook has gone, or changed into something else, since it was scanned."""
    try:
        return notebook.read(reading.read(root / name, follow=True), name)
    except (OSError, UsageError):
        return None


def _of_bundle(each: CheckedBundle, placed: Placed) -> CheckedBundle:
    return replace(
        each,
        bundle=_of_files(each.bundle, placed),
        findings=tuple(_of_finding(one, placed) for one in each.findings),
        silenced=tuple(replace(one, finding=_of_finding(one.finding, placed)) for one in each.silenced),
    )


def _of_files(bundle: Bundle, placed: Placed) -> Bundle:
    facts = (replace(one, places=tuple(map(placed, one.places))) for one in bundle.facts)
    settings = (replace(one, location=one.location and placed(one.location)) for one in bundle.settings)
    return replace(bundle, facts=tuple(facts), settings=tuple(settings))


def _of_finding(finding: Finding, placed: Placed) -> Finding:
    return replace(
        finding,
        location=finding.location and placed(finding.location),
        places=tuple(map(placed, finding.places)),
        changes=tuple(replace(one, location=one.location and placed(one.location)) for one in finding.changes),
    )


def _of_note(note: ScanNote, placed: Placed) -> ScanNote:
    """A note that names a line; notes on cells that are left out say their cell themselves."""
    line = _LINE.fullmatch(note.where)
    at = placed(Location(line[1], int(line[2]))) if line is not None else None
    if at is None or not at.cell or note.why.startswith("cell "):
        return note
    return replace(note, where=f"{at.file}:{at.line}", why=f"cell {at.cell}, line {at.cell_line}: {note.why}")
