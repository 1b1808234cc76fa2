"""autotune check: arguments in, findings and exit code out."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from autotune import __version__
from autotune.check.check import CheckOptions, check
from autotune.cli import BUG, options
from autotune.cli.output import has_colour, show
from autotune.model.checked import BASELINE, Checked
from autotune.model.rule import Severity
from autotune.outlet import clean, print_stderr
from autotune.report import render
from autotune.report.check_progress import CheckProgress
from autotune.report.findings import count

NEVER = "never"
FOUND = 1
"""The exit code when a finding is as grave as --fail-on, or a limit of --profile does not hold."""

UNREAD = 2
"""The exit code when a file that was named cannot be read: silence would say that nothing is wrong with it."""


def _rule_ids(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.upper() for name in options.names(context, parameter, texts))


def _percentage(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """A share with its sign: nobody can tell whether "5" means 5 % or 500 %."""
    share = options.number(text) if text is not None and text.strip().endswith("%") else None
    if text is not None and share is None:
        raise click.BadParameter(f"{text!r} is not a percentage; write e.g. 5%", context, parameter)
    return share


def _limits(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    """FACT=NUMBER, each."""
    limits: dict[str, float] = {}
    for text in texts:
        fact, _, number = text.partition("=")
        limit = options.number(number)
        if limit is None or not fact.strip():
            raise click.BadParameter(f"{text!r} is not a limit; write e.g. data_wait_share=0.1", context, parameter)
        limits[fact.strip()] = limit
    return limits


def _card(context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
    if text is None:
        return None
    from autotune.catalogue.devices import asked  # the table of cards; only --on needs it

    return asked(text)


SEVERITIES = click.Choice([*(each.value for each in Severity), NEVER])
FAIL_ON = "Exit with 1 if a finding has this severity or a higher one."
SELECT = "Use only these rules or families, e.g. DL001,EN."
BASELINE_HELP = "Report only findings that this baseline lacks."
WRITE_BASELINE = "Write the current findings as a baseline."
PYTHON = "With --env: the interpreter that will run the script."
ON = "The card of the runs, e.g. a100-40: also fail those that surely cannot fit into it."
PROFILE = "Use a recorded profile (last: the newest)."
MAX = "Fail if this fact of the profile is larger."
MAX_REGRESSION = "Fail if the step is slower by more, e.g. 5%."
ALL = "Also report minor findings, which only some runs would gain from, and those in tests, docs and vendored code."
CHANGED = "Report only findings on lines that differ from this commit or branch of git: HEAD, origin/main."
FACTS = "Print the facts in the files, not findings; for rule authors."


@click.command()
@options.format_of("check")
@options.output
@click.option("--fail-on", type=SEVERITIES, default=Severity.HIGH.value, show_default=True, help=FAIL_ON)
@click.option("--all", "with_minor", is_flag=True, help=ALL)
@click.option("--changed", metavar="REF", help=CHANGED)
@click.option("--select", multiple=True, metavar="RULES", callback=_rule_ids, help=SELECT)
@click.option("--ignore", multiple=True, metavar="RULES", callback=_rule_ids, help="Ignore these rules or families.")
@click.option("--baseline", type=options.FILE, help=BASELINE_HELP)
@click.option("--write-baseline", type=options.FILE, help=WRITE_BASELINE)
@click.option("--env", is_flag=True, help="Use the hardware and packages of this machine.")
@options.python(PYTHON)
@options.on(ON, metavar="CARD", callback=_card)
@click.option("--profile", metavar="RUN_OR_RECORDING", help=PROFILE)
@click.option("--max", "maxima", multiple=True, metavar="FACT=NUMBER", callback=_limits, help=MAX)
@click.option("--max-regression", metavar="PERCENT", callback=_percentage, help=MAX_REGRESSION)
@click.option("--facts", is_flag=True, help=FACTS)
@click.option("--against", metavar="RUN_OR_RECORDING", help="The profile to compare with.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
def command(paths: tuple[Path, ...], **given: Any) -> int:
    """Find what makes training slow or wrong in the scripts, configs and launch commands below PATHS (default: here).

    Nothing is run or imported. Rules that need a run are listed as such.
    """
    _refuse_incomplete(given)
    with CheckProgress() as shown:
        checked = check(_options(paths, given), cwd=Path.cwd(), progress=shown.update)
    output = given["output"]
    if given["facts"]:
        show(render("check --facts", checked), output)
        return _report_bugs(checked)
    show(render("check", checked, given["format_"], colour=has_colour(output)), output)
    if given["write_baseline"] is not None:
        print_stderr(_baseline_line(checked, given["write_baseline"]))
    return _report_bugs(checked) or _report_unread(checked, paths) or (FOUND if checked.fails else 0)


def _refuse_incomplete(given: Mapping[str, Any]) -> None:
    """Raises UsageError for an option whose partner is missing."""
    _require(given, "profile", "maxima", "--max needs --profile.")
    _require(given, "profile", "max_regression", "--max-regression needs --profile.")
    _require(given, "against", "max_regression", "--max-regression needs --against: the profile to compare with.")
    _require(given, "max_regression", "against", "--against needs --max-regression: the slowdown to allow.")
    _require(given, "env", "python", "--python needs --env: otherwise no package is checked.")


def _require(given: Mapping[str, Any], needed: str, option: str, why: str) -> None:
    if given[option] not in (None, {}) and given[needed] in (None, False):
        raise click.UsageError(why)


def _options(paths: tuple[Path, ...], given: Mapping[str, Any]) -> CheckOptions:
    return CheckOptions(
        paths=paths or (Path(),),
        select=given["select"],
        ignore=given["ignore"],
        fail_on=None if given["fail_on"] == NEVER else Severity(given["fail_on"]),
        baseline=given["baseline"],
        write_baseline=given["write_baseline"],
        env=given["env"],
        python=given["python"],
        profile=given["profile"],
        maxima=given["maxima"],
        max_regression=given["max_regression"],
        against=given["against"],
        with_minor=given["with_minor"],
        changed=given["changed"],
        on=given["on"],
    )


def _report_bugs(checked: Checked) -> int:
    """Print our own bugs for whoever reports them. The exit code; 0 without one."""
    for note in checked.bugs:
        print_stderr(f"autotune {__version__}: {clean(note.where)}: {note.why}. Please report this line.")
    return BUG if checked.bugs else 0


def _report_unread(checked: Checked, paths: tuple[Path, ...]) -> int:
    """Print the first of the files among these paths that could not be read. The exit code; 0 when all were read."""
    files = [os.path.relpath(os.path.realpath(path), checked.root) for path in paths if path.is_file()]
    errors = [note.where for note in checked.notes if note.is_error]
    unread = next((name for name in files if any(f"{one}:".startswith(f"{name}:") for one in errors)), "")
    if not unread:
        return 0
    print_stderr(f"{unread}: named on the command line, but unreadable: nothing in it was checked")
    return UNREAD


def _baseline_line(checked: Checked, file: Path) -> str:
    """What --write-baseline did."""
    known = sum(each.by == BASELINE for bundle in checked.bundles for each in bundle.silenced)
    return f"{file}: written, with {count(known, 'finding')}; use it with --baseline {shlex.quote(str(file))}"
