"""autotune verify: a change and a budget in, the verdict out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from autotune.cli import options
from autotune.cli.output import columns, has_colour, show
from autotune.cli.script_command import explain_misplaced_options, resolve_command
from autotune.history.commands import StoredCommand, is_remembered
from autotune.model.rule import Effect
from autotune.model.verified import LossVerdict, Schedule, Verdict, Verified
from autotune.outlet import print_stderr
from autotune.report import render
from autotune.report.live import ProgressDisplay
from autotune.report.text import ab_result
from autotune.verify.thresholds import LEAST_LOSSES
from autotune.verify.verify import VerifyOptions, run_of, verify

NOT_MET = 1
"""The exit code when the speedup of --require-speedup is not there."""

PATCH = "A run, a patch file, or the number of an applied patch (default: the patch of the last run)."
LOSS_STEPS = "Compare the losses of at least this many steps."
REQUIRE_SPEEDUP = "Exit with 1 unless the speedup is above this (95 %), e.g. 1.05."


@click.command(context_settings=options.BEFORE_A_COMMAND)
@click.option("--patch", metavar="PATCH", help=PATCH)
@click.option("--against", metavar="OTHER.py", help="Compare with another script instead.")
@options.select_changes("Use")
@options.allow("Also use changes with this effect.")
@options.budget("Total time for all runs.", default="60s", show_default=True)
@click.option("--loss-steps", type=click.IntRange(min=LEAST_LOSSES), help=LOSS_STEPS)
@click.option("--require-speedup", type=float, help=REQUIRE_SPEEDUP)
@options.price
@options.resume("Add pairs to the last verification of the same command and change.")
@options.python()
@options.format_of("verify")
@options.output
@options.no_lock
@options.quiet
@options.script_command
def command(command: tuple[str, ...], **given: Any) -> int:
    """Measure a script with and without a change, in interleaved fresh processes, and compare.

    Your files stay unchanged: the script sees the change in a scratch copy. COMMAND is a script with its arguments, or,
    after --, any command that starts one; without it, the command of the last diagnosis.
    """
    if given["patch"] is not None and given["against"] is not None:
        raise click.UsageError("--patch and --against exclude each other: say what to compare with.")
    resolved = resolve_command(command, "verify", given["python"], run_of(given["patch"], Path.cwd()))
    verified = replace(_verify(resolved, given), resume_command=_resume_command(resolved, given["resume"]))
    output = given["output"]
    show(render("verify", verified, given["format_"], colour=has_colour(output), width=columns(output)), output)
    return 0 if _meets(verified, given["require_speedup"]) else NOT_MET


def _verify(command: StoredCommand, given: dict[str, Any]) -> Verified:
    quiet, budget_s = given["quiet"], given["budget"]
    asked = VerifyOptions(
        command.words,
        budget_s,
        patch=given["patch"],
        against=given["against"],
        select=given["select"],
        allow=given["allow"],
        loss_steps=given["loss_steps"],
        python=command.python,
        resume=given["resume"],
        lock=not given["no_lock"],
    )

    def announce(planned: Schedule, spent_s: float, against: str) -> None:
        if not quiet:
            text = ab_result.plan(planned.seconds, len(planned.order), spent_s, given["price"])
            print_stderr(f"autotune: {against}: {text}")

    def begins() -> None:
        if not quiet:
            first = "the stored pairs, and more" if given["resume"] else "first a rehearsal of each side"
            print_stderr(f"autotune: within {budget_s:.0f} s; {first}")

    with ProgressDisplay(quiet=quiet) as live, explain_misplaced_options(command.words, quiet=quiet):
        return verify(asked, announce, live.update, cwd=command.cwd, begins=begins)


def _resume_command(command: StoredCommand, is_resumed: bool) -> str:
    """The command that goes on with this one, as it was typed; words about it where it may hold a secret."""
    if not is_remembered(command.words, Path.cwd()):
        return "the same command with --resume"
    verb, *words = click.get_current_context().obj
    return f"autotune {shlex.join([verb, *([] if is_resumed else ['--resume']), *words])}"


def _meets(verified: Verified, required: float | None) -> bool:
    """Whether the whole interval of the speedup is at or above `required`.

    "Cannot tell" does not meet it. Neither do different losses after an exact or equivalent change.
    """
    if required is None:
        return True
    effect = max((one.effect for one in verified.changes), key=lambda one: one.rank, default=None)
    if verified.losses.sameness is LossVerdict.DIFFERENT and effect in (Effect.EXACT, Effect.EQUIVALENT):
        return False
    if verified.verdict is Verdict.NO_DIFFERENCE:
        return required <= 1
    return verified.verdict is not Verdict.CANNOT_TELL and verified.estimate.low >= required
