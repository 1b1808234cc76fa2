"""autotune report: a stored run in, its report in any format out; nothing runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from autotune.cli import options
from autotune.cli.outlook_options import load_asked, outlook, outlook_request
from autotune.cli.output import columns, has_colour, show, verdict_last
from autotune.collect import artefacts
from autotune.diagnose.outlook import NOTHING, OutlookRequest
from autotune.errors import UsageError
from autotune.history import results
from autotune.report import render
from autotune.report.waiting import waiting

VERIFICATION = "Report on the last `verify` of its changes instead."


@click.command()
@click.argument("run", metavar="[RUN_OR_RECORDING]", default="last")
@options.format_of("diagnose")
@options.output
@options.verbose
@options.price
@click.option("--verification", is_flag=True, help=VERIFICATION)
@outlook
def command(run: str, **given: Any) -> None:
    """Report on a stored run: the last one, an id, a folder, or a Recording that was made elsewhere.

    Of a diagnosis, findings are computed again from what was recorded. Of a search, or of a plan of `fit`, it is what
    that found.

    \b
        autotune report last --format html --output report.html
        autotune report --at "1200/10000 [46:47<5:42:11, 2.33s/it]"
    """
    output = given["output"]
    asked = outlook_request(given)
    with waiting(f"reading {run}"):
        verb, result = _result(run, asked, given)
        text = render(
            verb,
            result,
            given["format_"],
            colour=has_colour(output),
            width=columns(output),
            verbose=given["verbose"],
        )
    show(verdict_last(text, output) if given["format_"] == "text" else text, output)


def _result(name: str, asked: OutlookRequest, given: Mapping[str, Any]) -> tuple[str, Any]:
    """The verb whose result is asked for, and the result. Raises UsageError where there is none."""
    path = artefacts.resolve(name, Path.cwd())
    if given["verification"]:
        if asked != NOTHING or given["price"] is not None:
            raise UsageError("--at, --options, --on and --price are about a diagnosis", where="--verification")
        verified = results.verification(path)
        if verified is None:
            raise UsageError("no verification of its changes is stored", where=name, to_do="Make one: autotune verify")
        return "verify", verified
    searched = results.search(path) if asked == NOTHING else None
    if searched is not None:
        return "tune", searched
    planned = results.fit(path) if asked == NOTHING else None
    if planned is not None:
        return "fit", planned
    return "diagnose", load_asked(name, given)
