"""What `undo` prints: the patch, its project, and what became of each file."""

from __future__ import annotations

from autotune.model.applied import Undone, UndoneFile
from autotune.outlet import plain


def render(undone: Undone, colour: bool, width: int) -> str:
    """A line for the patch and one for each of its files."""
    head = f"Undid patch {undone.number} of {undone.root} ({undone.title}):"
    return plain("\n".join([head, *(f"  {_file(each, undone)}" for each in undone.files)]) + "\n")


def _file(file: UndoneFile, undone: Undone) -> str:
    name = file.path.relative_to(undone.root) if file.path.is_relative_to(undone.root) else file.path
    match file.state:
        case "changed since":
            return f"{name} was changed since and stays as it is; the file before the patch: {file.before}"
        case "edits kept":
            return f"{name} no longer has the patch, and keeps your later edits"
        case "restored before":
            return f"{name} was without the patch already"
        case _:
            return f"{name} is as before the patch"
