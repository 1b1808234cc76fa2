"""autotune apply: a patch file in, edited files out."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from autotune.api import apply as api
from autotune.cli.output import has_colour
from autotune.errors import UsageError
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.patch.journal import Journal

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("name", metavar="[RUN_OR_PATCH]", default="last")
@click.option("--diff", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--select", multiple=True, metavar="RULE_OR_SETTING", help="Only these changes; may be repeated.")
@click.option(
    "--allow",
    type=click.Choice([Effect.ALTERING.value]),
    multiple=True,
    help="Also write changes of this effect: what is learned may change.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(name: str, diff: bool, select: tuple[str, ...], allow: tuple[str, ...], yes: bool) -> None:
    """Write the changes of the last diagnosis (or of RUN_OR_PATCH) into your files.

    Only changes that leave training the same are written, all files or none. `autotune undo` takes them back.
    """
    names = tuple(part.strip() for each in select for part in each.split(",") if part.strip())
    planned = api.plan(api.Options(name, names, frozenset(map(Effect, allow))), cwd=Path.cwd())
    for change in planned.chosen:
        click.echo(f"{_title(change)}{f'  {change.gain}' if change.gain else ''}")
    for change, reason in planned.left:
        click.echo(f"{_title(change)}: not written, {reason}")
    for found in planned.moved:
        click.echo(found)
    is_coloured = has_colour(None)
    for line in planned.diff():
        click.echo(click.style(line, fg=_COLOURS.get(line[0])) if is_coloured else line, nl=False)
    _write(planned, diff, yes)


def _write(planned: api.Planned, diff: bool, yes: bool) -> None:
    if not planned.files:
        click.echo("No file is to be written.")
    elif diff:
        click.echo("Nothing was written: this was --diff.")
    elif yes or _agreed(planned):
        journal = api.write(planned)
        click.echo(f"Wrote {api.counted(planned.files, 'file')}.{_taken_back_by(journal)}")
    else:
        click.echo("Nothing was written.")
    if planned.typed:
        belongs = " It belongs to what the files say now." if planned.files and not diff else ""
        how = "Start it with" if planned.command else "Add or change on your command line"
        click.echo(f"What you typed is in no file.{belongs} {how}:\n  {planned.command or planned.typed}")


def _taken_back_by(journal: Journal | None) -> str:
    """The command that undoes it, as it works where `apply` was typed."""
    if journal is None:
        return ""
    folder = journal.folder.parent
    undo = f"autotune undo {journal.number}"
    here = api.kept_patches(Path.cwd())
    is_here = here is not None and here.samefile(folder)
    away = "" if is_here else f"cd {shlex.quote(str(folder.parents[1]))} && "
    return f" `{away}{undo}` takes it back."


def _agreed(planned: api.Planned) -> bool:
    try:
        return click.confirm(f"Write {api.counted(planned.files, 'file')}?")
    except click.Abort:
        raise UsageError(
            "nobody is there to answer; nothing was written", to_do="Say --yes, or look first with --diff."
        ) from None


def _title(change: PatchChange) -> str:
    old = "unset" if change.old is None else change.old
    return f"{' '.join(change.rules)} {change.setting}: {old} -> {change.new} ({change.effect.value})"
