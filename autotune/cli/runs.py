"""autotune runs: one line for each job that was diagnosed below some folders; nothing runs."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli import options
from autotune.cli.output import columns, has_colour, show
from autotune.outlet import print_stderr
from autotune.report import render
from autotune.report.waiting import waiting
from autotune.runs.runs import runs

MOST_NAMED = 3


@click.command()
@click.argument("folders", nargs=-1, metavar="[FOLDER...]", type=click.Path(path_type=Path))
@options.format_of("runs")
@options.output
def command(folders: tuple[Path, ...], format_: str, output: Path | None) -> None:
    """One line for each diagnosed job below FOLDER (default: here): what bounds it, what it waits for, what it loses.

    \b
        autotune runs team --format csv --output jobs.csv
        autotune runs . --format prometheus --output /var/lib/node_exporter/autotune.prom

    What is not known is left empty. A line is as it was when the job was measured; `autotune report FOLDER` computes
    findings again.
    """
    with waiting("looking for runs"):
        found = runs(folders or (Path(),))
    for folder, why in found.unreadable[:MOST_NAMED]:
        print_stderr(f"autotune: {folder} cannot be read: {why}")
    if len(found.unreadable) > MOST_NAMED:
        print_stderr(f"autotune: and {len(found.unreadable) - MOST_NAMED} more cannot be read")
    show(render("runs", found, format_, colour=has_colour(output), width=columns(output, default=120)), output)
