"""autotune apply: a patch file in, edited files out."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from autotune.apply import apply as api
from autotune.cli.output import has_colour, show
from autotune.diagnose import command_history
from autotune.errors import UsageError
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.outlet import plain, print_stderr, print_stdout
from autotune.patch.journal import Journal
from autotune.report.gains import format_interval
from autotune.verify import comparison

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("name", metavar="[RUN_OR_PATCH]", default="last")
@click.option("--diff", is_flag=True, help="Show the changes without writing them.")
@click.option("--select", multiple=True, metavar="RULE_OR_SETTING", help="Write only these changes; repeatable.")
@click.option(
    "--allow",
    type=click.Choice([Effect.ALTERING.value]),
    multiple=True,
    help="Also write changes with this effect, which may change what the model learns.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--trust", is_flag=True, help="Write a patch that was made elsewhere or for another project.")
def command(name: str, diff: bool, select: tuple[str, ...], allow: tuple[str, ...], yes: bool, trust: bool) -> None:
    """Write the changes of the last diagnosis (or of RUN_OR_PATCH) into your files.

    Only changes that keep training the same and have no other cost are written, either all files or none. `autotune
    undo` reverts them.
    """
    if not diff:
        for journal in api.recover(Path.cwd()):
            print_stderr(f"autotune: undid the interrupted patch {journal.number}{journal.exceptions}")
    names = tuple(part.strip() for each in select for part in each.split(",") if part.strip())
    planned = api.plan(api.ApplyOptions(name, names, frozenset(map(Effect, allow))), cwd=Path.cwd())
    if name == "last":
        print_stderr(f"autotune: {planned.title}, {command_history.age(planned.run)}: {planned.of}")
        if newer := command_history.newer_elsewhere("apply", Path.cwd()):
            print_stderr(f"autotune: {newer}")
    _say_changes(planned)
    is_coloured = has_colour(None)
    for line in planned.diff():
        text = plain(line.rstrip("\n"))
        show(f"{click.style(text, fg=_COLOURS.get(line[0])) if is_coloured else text}\n", None)
    if planned.files:
        _check_trusted(planned, diff, yes, trust)
    _write(planned, diff, yes)


def _say_changes(planned: api.ApplyPlan) -> None:
    """Print the changes with their predicted gains, the changes by hand, and the values whose place has moved."""
    for change in planned.chosen:
        print_stdout(f"{_title(change)}{f'  {change.gain}' if change.gain else ''}")
    if sum(bool(change.gain) for change in planned.chosen) > 1:
        gain = comparison.predicted(planned.chosen, planned.run, planned.root)
        print_stdout(f"Together {format_interval(gain)}, {gain.basis}" if gain is not None else _not_known(planned))
    for change, reason in planned.left:
        print_stdout(f"{_title(change)}: not written, {reason}")
    for found in planned.moved:
        print_stdout(found)


def _not_known(planned: api.ApplyPlan) -> str:
    rules = dict.fromkeys(rule for change in planned.chosen if not change.gain for rule in change.rules)
    why = f": the gain of {', '.join(rules)} is not estimated" if rules else ""
    return f"Their combined gain is unknown{why}."


def _check_trusted(planned: api.ApplyPlan, diff: bool, yes: bool, trust: bool) -> None:
    """Ask in words about a patch that somebody else may have made. Raises UsageError without an answer."""
    if not planned.doubt or trust:
        return
    print_stdout(f"Not trusted: {planned.doubt}\nIt would write below {planned.root}")
    if diff:
        return
    to_do = "Review it with --diff. To write exactly this, add --trust."
    if yes:
        raise UsageError("--yes does not confirm an untrusted patch", to_do=to_do)
    try:
        answer = click.prompt('Type "write it" to write it anyway', default="", show_default=False)
    except click.Abort:
        raise UsageError("there was no answer on stdin; nothing was written", to_do=to_do) from None
    if answer.strip().strip('"') != "write it":
        raise UsageError("nothing was written", to_do=to_do)


def _write(planned: api.ApplyPlan, diff: bool, yes: bool) -> None:
    if not planned.files:
        print_stdout("There is no file to write.")
    elif diff:
        print_stdout("Nothing was written: this was --diff.")
    elif yes or _agreed(planned):
        journal = api.write(planned)
        print_stdout(f"Wrote {api.counted(planned.files, 'file')}.{_taken_back_by(journal, planned.root)}")
    else:
        print_stdout("Nothing was written.")
    if planned.typed:
        belongs = " It goes with the changes in the files." if planned.files and not diff else ""
        how = "Start it with" if planned.command else "Add or change on your command line"
        print_stdout(f"Your command line is in no file.{belongs} {how}:\n  {planned.command or planned.typed}")


def _taken_back_by(journal: Journal | None, root: Path) -> str:
    """The command that undoes it, as it works where `apply` was typed."""
    if journal is None:
        return ""
    here = api.patch_store(Path.cwd())
    away = "" if here is not None and here.root.samefile(root) else f"cd {shlex.quote(str(root))} && "
    return f" `{away}autotune undo {journal.number}` reverts it."


def _agreed(planned: api.ApplyPlan) -> bool:
    try:
        return click.confirm(f"Write {api.counted(planned.files, 'file')}?")
    except click.Abort:
        raise UsageError(
            "there was no answer on stdin; nothing was written", to_do="Add --yes, or review first with --diff."
        ) from None


def _title(change: PatchChange) -> str:
    old = "unset" if change.old is None else change.old
    return f"{' '.join(change.rules)} {change.setting}: {old} -> {change.new} ({change.effect.value})"
