"""Files as they are stored, and the text of them that edits are made in: of a notebook the script of its cells."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from autotune.errors import UsageError
from autotune.model.evidence import Location
from autotune.model.source import NOTEBOOK, Splice
from autotune.syntax import notebook
from autotune.syntax.edit_effect import spliced

Read = Callable[[str], bytes]
"""The bytes of a file by its name."""


def texts(read: Read) -> Read:
    """The text of a file that edits are made in, by its name; `read` gives what is stored."""
    return lambda name: text(name, read(name))


def text(name: str, data: bytes) -> bytes:
    """The text of the file `name`, which holds `data`. Raises UsageError for a notebook that is none."""
    return notebook.read(data, name).script if name.endswith(NOTEBOOK) else data


def located(at: Location, data: bytes) -> Location:
    """A place in the text of a file as one in the file, which holds `data`."""
    return notebook.read(data, at.file).located(at) if at.file.endswith(NOTEBOOK) else at


def with_splice(name: str, data: bytes, edit: Splice) -> bytes:
    """`data` of the file `name` with `edit` of its text. Raises UsageError where more than the text would change."""
    if not name.endswith(NOTEBOOK):
        return spliced(data, edit)
    before = notebook.read(data, name)
    after = spliced(data, before.splice(edit))
    wanted = spliced(before.script, edit)
    if _code(notebook.read(after, name).script) != _code(wanted) or _rest(after) != _rest(data):
        raise UsageError(
            "the edit would change more of the notebook than its line", where=name, to_do="Edit it by hand."
        )
    return after


def _code(script: bytes) -> list[bytes]:
    """The lines of a script that are not blank: how many blank ones stand between cells depends on the file."""
    return [line for line in script.splitlines() if line.strip()]


def _rest(data: bytes) -> Any:
    """All of a notebook but the sources of its cells."""
    document = json.loads(data)
    sheets = [document] if "cells" in document else document["worksheets"]
    for sheet in sheets:
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        for cell in cells if isinstance(cells, list) else ():
            for key in ("source", "input") if isinstance(cell, dict) and cell.get("cell_type") == "code" else ():
                cell.pop(key, None)
    return document
