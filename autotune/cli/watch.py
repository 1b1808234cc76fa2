"""autotune watch: a folder in, the state of its watched runs out; or a command, which becomes this process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from autotune.cli import options
from autotune.cli.output import columns, has_colour, show
from autotune.report import render
from autotune.watched.start import start
from autotune.watched.watched import watched

PROMETHEUS = "With a COMMAND: write its figures to this file for node_exporter's textfile collector."
QUIET = "With a COMMAND: print nothing on stderr, keep the state alone."


@click.command(context_settings=options.BEFORE_A_COMMAND)
@click.option("--prometheus", type=options.FILE, help=PROMETHEUS)
@click.option("--quiet", is_flag=True, help=QUIET)
@options.python()
@options.format_of("watch")
@options.output
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[DIR | COMMAND...]")
def command(words: tuple[str, ...], **given: Any) -> None:
    """Say how watched runs are doing: their steps, their speed now and at first, and what has drifted.

    DIR is a run folder, a folder of runs or a project; without it, this project. A COMMAND is started under watch, as
    with AUTOTUNE_WATCH=1 in front of it: the whole run, with windows at steps 50, 500, 5,000 ... and when the time of
    a step has moved by a tenth. Its output and its exit code stay its own.

    \b
        autotune watch
        autotune watch -- torchrun --nproc-per-node 2 train.py
        AUTOTUNE_WATCH=1 python train.py
    """
    if words and not (len(words) == 1 and Path(words[0]).is_dir()):
        start(
            words,
            python=given["python"],
            prometheus=given["prometheus"],
            quiet=given["quiet"],
            cwd=Path.cwd(),
            environ=os.environ,
        )
    output = given["output"]
    runs = watched(Path(words[0]) if words else None, cwd=Path.cwd())
    show(render("watch", runs, given["format_"], colour=has_colour(output), width=columns(output)), output)
