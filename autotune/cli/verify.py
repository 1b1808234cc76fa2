"""autotune verify: a change and a budget in, the verdict out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from autotune.cli.command_source import resolve_command
from autotune.cli.duration import seconds
from autotune.cli.misplaced_options import watched
from autotune.cli.output import has_colour, show
from autotune.diagnose.command_history import StoredCommand, is_remembered
from autotune.model.rule import Effect
from autotune.model.verified import LossVerdict, Schedule, Verdict, Verified
from autotune.outlet import print_stderr
from autotune.report.json import verify
from autotune.report.live import ProgressDisplay
from autotune.report.text import verify as verify_text
from autotune.verify import verify as api
from autotune.verify.thresholds import LEAST_LOSSES

NOT_MET = 1
PATCH = "A run, a patch file, or the number of an applied patch (default: the patch of the last run)."
RENDERERS = {"text": verify_text.render, "json": verify.render}


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--patch", metavar="PATCH", help=PATCH)
@click.option("--against", metavar="OTHER.py", help="Compare with another script instead.")
@click.option("--select", multiple=True, metavar="RULE_OR_SETTING", help="Use only these changes; repeatable.")
@click.option(
    "--allow", type=click.Choice([Effect.ALTERING.value]), multiple=True, help="Also use changes with this effect."
)
@click.option("--budget", callback=seconds, default="60s", show_default=True, help="Total time for all runs.")
@click.option(
    "--loss-steps", type=click.IntRange(min=LEAST_LOSSES), help="Compare the losses of at least this many steps."
)
@click.option("--require-speedup", type=float, help="Exit with 1 unless the speedup is above this (95 %), e.g. 1.05.")
@click.option("--price", type=float, help="USD per hour of this machine: adds cost to times.")
@click.option("--resume", is_flag=True, help="Add pairs to the last verification of the same command and change.")
@click.option("--python", help="Python interpreter of the script.")
@click.option("--format", "format_", type=click.Choice(list(RENDERERS)), default="text", help="Output format.")
@click.option("--no-lock", is_flag=True, help="Measure even while another measurement runs.")
@click.option("--quiet", is_flag=True, help="Show no progress on stderr.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def command(command: tuple[str, ...], **given: Any) -> int:
    """Measure a script with and without a change, in interleaved fresh processes, and compare.

    Your files stay unchanged: the script sees the change in a scratch copy. COMMAND is a script with its arguments, or,
    after --, any command that starts one; without it, the command of the last diagnosis.
    """
    if given["patch"] is not None and given["against"] is not None:
        raise click.UsageError("--patch and --against exclude each other: say what to compare with.")
    known = resolve_command(command, "verify", given["python"], api.run_of(given["patch"], Path.cwd()))
    verified = _verified(known, given)
    show(RENDERERS[given["format_"]](verified, has_colour(None), 80, _resume(known, given["resume"])), None)
    return 0 if _is_met(verified, given["require_speedup"]) else NOT_MET


def _resume(command: StoredCommand, is_resumed: bool) -> str:
    """The command that goes on with this one, as it was typed; words about it where it may hold a secret."""
    if not is_remembered(command.words, Path.cwd()):
        return "the same command with --resume"
    verb, *words = click.get_current_context().obj
    return f"autotune {shlex.join([verb, *([] if is_resumed else ['--resume']), *words])}"


def _verified(command: StoredCommand, given: dict[str, Any]) -> Verified:
    quiet, budget_s, price = given["quiet"], given["budget"], given["price"]
    options = api.VerifyOptions(
        command.words,
        budget_s,
        patch=given["patch"],
        against=given["against"],
        select=tuple(part.strip() for each in given["select"] for part in each.split(",") if part.strip()),
        allow=frozenset(map(Effect, given["allow"])),
        loss_steps=given["loss_steps"],
        python=command.python,
        resume=given["resume"],
        lock=not given["no_lock"],
    )

    def announce(planned: Schedule, spent_s: float, against: str) -> None:
        if not quiet:
            text = verify_text.plan(planned.seconds, len(planned.order), spent_s, price)
            print_stderr(f"autotune: {against}: {text}")

    def begins() -> None:
        if not quiet:
            first = "the stored pairs, and more" if given["resume"] else "first a rehearsal of each side"
            print_stderr(f"autotune: within {budget_s:.0f} s; {first}")

    with ProgressDisplay(quiet=quiet) as live, watched(command.words, quiet=quiet):
        return api.verify(options, announce, live.update, cwd=command.cwd, begins=begins)


def _is_met(verified: Verified, required: float | None) -> bool:
    """Whether the speedup is there that was asked for, by its whole interval; what cannot be told is not there, and a
    change that promised the same losses and has others does not count."""
    if required is None:
        return True
    effect = max((one.effect for one in verified.changes), key=lambda one: one.rank, default=None)
    if verified.losses.sameness is LossVerdict.DIFFERENT and effect in (Effect.EXACT, Effect.EQUIVALENT):
        return False
    if verified.verdict is Verdict.NO_DIFFERENCE:
        return required <= 1
    return verified.verdict is not Verdict.CANNOT_TELL and verified.estimate.low >= required
