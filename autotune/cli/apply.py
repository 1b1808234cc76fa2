"""autotune apply: a patch file in, edited files out."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
from msgspec.structs import replace

from autotune.apply.applied_patches import patch_store
from autotune.apply.apply import ApplyOptions, plan, recover, write
from autotune.cli import options
from autotune.cli.output import has_colour, show
from autotune.errors import UsageError
from autotune.history import commands
from autotune.model.applied import ApplyPlan
from autotune.model.rule import Effect
from autotune.outlet import print_stderr, print_stdout
from autotune.patch.journal import Journal
from autotune.report import render
from autotune.report.findings import count
from autotune.verify import comparison

ALLOW = "Also write changes with this effect, which may change what the model learns."
REVIEW = "Review it with --diff. To write exactly this, add --trust."


@click.command()
@click.argument("name", metavar="[RUN_OR_PATCH]", default="last")
@click.option("--diff", is_flag=True, help="Show the changes without writing them.")
@options.select_changes("Write")
@options.allow(ALLOW)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--trust", is_flag=True, help="Write a patch that was made elsewhere or for another project.")
def command(name: str, diff: bool, select: tuple[str, ...], allow: frozenset[Effect], yes: bool, trust: bool) -> None:
    """Write the changes of the last diagnosis (or of RUN_OR_PATCH) into your files.

    Only changes that keep training the same and have no other cost are written, either all files or none. `autotune
    undo` reverts them.
    """
    if not diff:
        for journal in recover(Path.cwd()):
            print_stderr(f"autotune: undid the interrupted patch {journal.number}{journal.exceptions}")
    planned = plan(ApplyOptions(name, select, allow), cwd=Path.cwd())
    if name == "last":
        _print_origin(planned)
    show(render("apply", _with_gain(planned), colour=has_colour(None)))
    if planned.files and planned.doubt and not trust:
        print_stdout(f"Not trusted: {planned.doubt}\nIt would write below {planned.root}")
        if not diff:
            _ask_whether_trusted(yes)
    _write(planned, diff, yes)


def _print_origin(planned: ApplyPlan) -> None:
    """Say whose changes the last run's are."""
    print_stderr(f"autotune: {planned.title}, {commands.age(planned.run)}: {planned.of}")
    if newer := commands.newer_elsewhere("apply", Path.cwd()):
        print_stderr(f"autotune: {newer}")


def _with_gain(planned: ApplyPlan) -> ApplyPlan:
    """With the gain of its changes together, where several have one."""
    if sum(bool(change.gain) for change in planned.chosen) < 2:
        return planned
    return replace(planned, gain=comparison.predicted(planned.chosen, planned.run, planned.root))


def _ask_whether_trusted(yes: bool) -> None:
    """Ask in words about a patch that somebody else may have made. Raises UsageError without an answer."""
    if yes:
        raise UsageError("--yes does not confirm an untrusted patch", to_do=REVIEW)
    try:
        answer = click.prompt('Type "write it" to write it anyway', default="", show_default=False)
    except click.Abort:
        raise UsageError("there was no answer on stdin; nothing was written", to_do=REVIEW) from None
    if answer.strip().strip('"') != "write it":
        raise UsageError("nothing was written", to_do=REVIEW)


def _write(planned: ApplyPlan, diff: bool, yes: bool) -> None:
    if not planned.files:
        print_stdout("There is no file to write.")
    elif diff:
        print_stdout("Nothing was written: this was --diff.")
    elif yes or _confirm(planned):
        journal = write(planned)
        print_stdout(f"Wrote {count(len(planned.files), 'file')}.{_how_to_undo(journal, planned.root)}")
    else:
        print_stdout("Nothing was written.")
    if planned.typed:
        belongs = " It goes with the changes in the files." if planned.files and not diff else ""
        how = "Start it with" if planned.command else "Add or change on your command line"
        print_stdout(f"Your command line is in no file.{belongs} {how}:\n  {planned.command or planned.typed}")


def _confirm(planned: ApplyPlan) -> bool:
    try:
        return click.confirm(f"Write {count(len(planned.files), 'file')}?")
    except click.Abort:
        raise UsageError(
            "there was no answer on stdin; nothing was written", to_do="Add --yes, or review first with --diff."
        ) from None


def _how_to_undo(journal: Journal | None, root: Path) -> str:
    """The command that undoes it, as it works where `apply` was typed."""
    if journal is None:
        return ""
    here = patch_store(Path.cwd())
    away = "" if here is not None and here.root.samefile(root) else f"cd {shlex.quote(str(root))} && "
    return f" `{away}autotune undo {journal.number}` reverts it."
