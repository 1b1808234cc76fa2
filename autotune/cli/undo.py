"""autotune undo: the files of a written patch as they were."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.api import apply as api
from autotune.outlet import say
from autotune.patch.journal import Journal


@click.command()
@click.argument("number", metavar="[ID]", type=int, required=False)
def command(number: int | None) -> None:
    """Take back the last patch that `autotune apply` wrote, or patch ID.

    Files become byte for byte as before; one that you edited since keeps your own edits.
    """
    say(_told(api.undo(number, cwd=Path.cwd())))


def _told(journal: Journal) -> str:
    """What became of the files of a patch."""
    patch = f"patch {journal.number} ({journal.title})"
    if len(journal.restored) == len(journal.files):
        files = "its file is" if len(journal.files) == 1 else "its files are"
        return f"{patch.capitalize()}: {files} as before already, so it counts as taken back."
    own = [journal.files[index].path for index in journal.merged]
    kept = f" Your own edits since then stay: {', '.join(own)}." if own else ""
    return f"Took back {patch}: {api.counted(journal.files, 'file')} as before{journal.exceptions}.{kept}"
