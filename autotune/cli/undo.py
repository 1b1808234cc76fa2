"""autotune undo: the files of a written patch as they were."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.apply import undo as api
from autotune.outlet import print_stderr, print_stdout


@click.command()
@click.argument("number", metavar="[ID]", type=int, required=False)
def command(number: int | None) -> None:
    """Take back the last patch that `autotune apply` wrote into this project, or its patch ID.

    Files become byte for byte as before; one that you edited since keeps your own edits.
    """
    undone = api.undo(number, cwd=Path.cwd())
    print_stdout(_text(undone))
    if undone.newer:
        print_stderr(f"autotune: {undone.newer}")


def _text(undone: api.Undone) -> str:
    """The number and project of the undone patch, and the result for each file."""
    journal = undone.journal
    head = f"Undid patch {journal.number} of {undone.root} ({journal.title}):"
    return "\n".join([head, *(f"  {_file(undone, index)}" for index in range(len(journal.files)))])


def _file(undone: api.Undone, index: int) -> str:
    journal = undone.journal
    path = Path(journal.files[index].path)
    name = path.relative_to(undone.root) if path.is_relative_to(undone.root) else path
    if index in journal.left:
        return f"{name} was changed since and stays as it is; the file before the patch: {journal.before(index)}"
    if index in journal.merged:
        return f"{name} no longer has the patch, and keeps your later edits"
    if index in journal.restored:
        return f"{name} was without the patch already"
    return f"{name} is as before the patch"
