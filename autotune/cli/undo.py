"""autotune undo: the number of a patch in, its files as they were out."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.apply.undo import undo
from autotune.cli.output import show
from autotune.outlet import print_stderr
from autotune.report import render


@click.command()
@click.argument("number", metavar="[ID]", type=int, required=False)
def command(number: int | None) -> None:
    """Take back the last patch that `autotune apply` wrote into this project, or its patch ID.

    Files become byte for byte as before; one that you edited since keeps your own edits.
    """
    undone = undo(number, cwd=Path.cwd())
    show(render("undo", undone))
    if undone.newer:
        print_stderr(f"autotune: {undone.newer}")
