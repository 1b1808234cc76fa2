"""autotune undo: the files of a written patch as they were."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.api import apply as api
from autotune.outlet import say


@click.command()
@click.argument("number", metavar="[ID]", type=int, required=False)
def command(number: int | None) -> None:
    """Take back the last patch that `autotune apply` wrote, or patch ID, byte for byte."""
    journal = api.undo(number, cwd=Path.cwd())
    files = api.counted(journal.files, "file")
    say(f"Took back patch {journal.number} ({journal.title}): {files} as before{journal.exceptions}.")
