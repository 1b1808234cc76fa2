"""What to type after a report: commands that work as they stand where the one before was typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from msgspec import Struct

from autotune.invocation import typed
from autotune.invocation.redacted import is_whole
from autotune.model.fitted import Fitted
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.model.tuned import Tuned
from autotune.model.verified import Verdict, Verified
from autotune.report.gains import MIN_STEPS


class NextCommand(Struct, frozen=True):
    """A command, and what it does."""

    command: str
    why: str


def of_report(report: Report) -> Iterator[NextCommand]:
    """Look at the changes, read of the first rule, get the data, measure longer where the window was short."""
    name, run = shlex.quote(report.name), report.run
    if report.patch:
        of = "" if report.name == "last" else f" {name}"
        yield NextCommand(f"autotune apply --diff{of}", "the changes it would write")
    if report.recommendations:
        rule = report.recommendations[0].first.rule.id
        yield NextCommand(f"autotune explain {rule}", f"why {rule} fires, and when it does not")
    yield NextCommand(f"autotune report {name} --format html", "also markdown, json")
    is_short = report.step is not None and report.step.steps < MIN_STEPS and run.outcome == "completed"
    if is_short and is_whole(run.command):
        python = f" --python {shlex.quote(run.python)}" if run.python_from == "--python" else ""
        yield NextCommand(f"autotune diagnose{python} --steps 30 -- {typed(run.command)}", "a longer window")


def of_verified(verified: Verified) -> Iterator[NextCommand]:
    """More pairs where these do not tell."""
    if verified.verdict is Verdict.CANNOT_TELL and verified.resume_command:
        yield NextCommand(verified.resume_command, "adds pairs to this result")


def of_tuned(tuned: Tuned) -> Iterator[NextCommand]:
    """The patch of what was proven, whole; and what the diagnosis says of the rest."""
    verified = tuned.verified
    is_by_hand = verified is not None and all(change.by_hand for change in verified.changes)
    if tuned.patch and not is_by_hand:
        altering = verified is not None and any(change.effect is Effect.ALTERING for change in verified.changes)
        yield NextCommand(
            f"autotune apply{' --allow altering' if altering else ''} --diff", "the changes it would write"
        )


def of_fitted(fitted: Fitted) -> Iterator[NextCommand]:
    """The answer again, where a run keeps it."""
    if fitted.run:
        yield NextCommand(f"autotune report {shlex.quote(fitted.run)} --format html", "also markdown, json")
