"""autotune report: a stored run in, its report in any format out; nothing runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autotune.cli import options
from autotune.cli.outlook_options import outlook, outlook_request
from autotune.cli.output import columns, has_colour, show
from autotune.diagnose.diagnose import load
from autotune.report import render


@click.command()
@click.argument("run", metavar="[RUN_OR_RECORDING]", default="last")
@options.format_of("diagnose")
@options.output
@options.verbose
@options.price
@outlook
def command(run: str, **given: Any) -> None:
    """Report on a stored run: the last one, an id, a folder, or a Recording that was made elsewhere.

    Findings are computed again from what was recorded. Of a search it is the report of its diagnosis.

    \b
        autotune report last --format html --output report.html
        autotune report --at "1200/10000 [46:47<5:42:11, 2.33s/it]"
    """
    report = load(run, cwd=Path.cwd(), price=given["price"], asked=outlook_request(given))
    output = given["output"]
    text = render(
        "diagnose",
        report,
        given["format_"],
        colour=has_colour(output),
        width=columns(output),
        verbose=given["verbose"],
    )
    show(text, output)
