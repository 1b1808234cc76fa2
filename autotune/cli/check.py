"""autotune check: arguments in, findings and exit code out."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import click

from autotune import __version__
from autotune.check import check as api
from autotune.check.suppression import BASELINE
from autotune.cli import BUG
from autotune.cli.output import has_colour, show
from autotune.model.checked import Checked
from autotune.model.rule import Severity
from autotune.outlet import print_stderr
from autotune.report import CHECK_RENDERERS, render_check
from autotune.report.findings import count
from autotune.report.text.layout import clean

NEVER = "never"
FOUND = 1
"""The exit code when a finding is as grave as --fail-on, or a limit of --profile does not hold."""

UNREAD = 2
"""The exit code when a file that was named cannot be read: silence would say that nothing is wrong with it."""


def _number(text: str) -> float | None:
    """A share or another number: "0.05" and "5%" are the same; None for anything else."""
    try:
        number = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _share(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """A percentage with its sign: nobody can tell whether "5" means 5 % or 500 %."""
    share = _number(text) if text is not None and text.strip().endswith("%") else None
    if text is not None and share is None:
        raise click.BadParameter(f"{text!r} is not a percentage; write e.g. 5%", context, parameter)
    return share


def _limits(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    """FACT=NUMBER, each."""
    limits: dict[str, float] = {}
    for text in texts:
        fact, _, number = text.partition("=")
        limit = _number(number)
        if limit is None or not fact.strip():
            raise click.BadParameter(f"{text!r} is not a limit; write e.g. data_wait_share=0.1", context, parameter)
        limits[fact.strip()] = limit
    return limits


@click.command()
@click.option("--format", "format_", type=click.Choice(list(CHECK_RENDERERS)), default="text", help="Output format.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
@click.option(
    "--fail-on",
    type=click.Choice([*(each.value for each in Severity), NEVER]),
    default=Severity.HIGH.value,
    show_default=True,
    help="Exit with 1 if a finding has this severity or a higher one.",
)
@click.option("--select", multiple=True, metavar="RULES", help="Use only these rules or families, e.g. DL001,EN.")
@click.option("--ignore", multiple=True, metavar="RULES", help="Ignore these rules or families.")
@click.option(
    "--baseline", type=click.Path(dir_okay=False, path_type=Path), help="Report only findings that this baseline lacks."
)
@click.option(
    "--write-baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the current findings as a baseline.",
)
@click.option("--env", is_flag=True, help="Use the hardware and packages of this machine.")
@click.option("--python", help="With --env: the interpreter that will run the script.")
@click.option("--profile", metavar="RUN_OR_RECORDING", help="Use a recorded profile (last: the newest).")
@click.option(
    "--max",
    "maxima",
    multiple=True,
    metavar="FACT=NUMBER",
    callback=_limits,
    help="Fail if this fact of the profile is larger.",
)
@click.option(
    "--max-regression", metavar="PERCENT", callback=_share, help="Fail if the step is slower by more, e.g. 5%."
)
@click.option("--facts", is_flag=True, help="Print the facts in the files, not findings; for rule authors.")
@click.option("--against", metavar="RUN_OR_RECORDING", help="The profile to compare with.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
def command(paths: tuple[Path, ...], **given: Any) -> int:
    """Find what makes training slow or wrong in the scripts, configs and launch commands below PATHS (default: here).

    Nothing is run or imported. Rules that need a run are listed as such.
    """
    checked = api.check(_options(paths, given), cwd=Path.cwd())
    if given["facts"]:
        from autotune.report.text import check_facts

        show(check_facts.render(checked), given["output"])
        return _bug(checked)
    show(render_check(checked, given["format_"], colour=has_colour(given["output"])), given["output"])
    if given["write_baseline"] is not None:
        print_stderr(_written(checked, given["write_baseline"]))
    if bug := _bug(checked):
        return bug
    if broken := _broken(checked, paths):
        print_stderr(f"{broken}: named on the command line, but unreadable: nothing in it was checked")
        return UNREAD
    return FOUND if checked.fails else 0


def _bug(checked: Checked) -> int:
    """The exit code of a bug of ours, which is told here for whoever reports it; 0 without one."""
    for note in checked.bugs:
        print_stderr(f"autotune {__version__}: {clean(note.where)}: {note.why}. Please report this line.")
    return BUG if checked.bugs else 0


def _broken(checked: Checked, paths: tuple[Path, ...]) -> str:
    """The first of the files among these paths that is not what its name says; "" when all were read."""
    files = [os.path.relpath(os.path.realpath(path), checked.root) for path in paths if path.is_file()]
    errors = [note.where for note in checked.notes if note.is_error]
    return next((name for name in files if any(f"{one}:".startswith(f"{name}:") for one in errors)), "")


def _written(checked: Checked, file: Path) -> str:
    """What --write-baseline did."""
    known = sum(each.by == BASELINE for bundle in checked.bundles for each in bundle.silenced)
    return f"{file}: written, with {count(known, 'finding')}; use it with --baseline {shlex.quote(str(file))}"


def _options(paths: tuple[Path, ...], given: Mapping[str, Any]) -> api.CheckOptions:
    _require(given, "profile", "maxima", "--max needs --profile.")
    _require(given, "profile", "max_regression", "--max-regression needs --profile.")
    _require(given, "against", "max_regression", "--max-regression needs --against: the profile to compare with.")
    _require(given, "max_regression", "against", "--against needs --max-regression: the slowdown to allow.")
    _require(given, "env", "python", "--python needs --env: otherwise no package is checked.")
    return api.CheckOptions(
        paths=paths or (Path(),),
        select=_split(given["select"]),
        ignore=_split(given["ignore"]),
        fail_on=None if given["fail_on"] == NEVER else Severity(given["fail_on"]),
        baseline=given["baseline"],
        write_baseline=given["write_baseline"],
        env=given["env"],
        python=given["python"],
        profile=given["profile"],
        maxima=given["maxima"],
        max_regression=given["max_regression"],
        against=given["against"],
    )


def _require(given: Mapping[str, Any], needed: str, option: str, why: str) -> None:
    if given[option] not in (None, {}) and given[needed] in (None, False):
        raise click.UsageError(why)


def _split(values: tuple[str, ...]) -> tuple[str, ...]:
    """Ids from options that may hold several, in any case."""
    return tuple(one.strip().upper() for value in values for one in value.split(",") if one.strip())
