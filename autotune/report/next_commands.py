"""What to type after a report: commands that work as they stand where the one before was typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

from autotune.invocation import typed
from autotune.invocation.redacted import is_whole
from autotune.model.checked import Checked
from autotune.model.finding import Recommendation, needs_decision
from autotune.model.fitted import Fitted
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.model.tuned import Tuned
from autotune.model.verified import Verdict, Verified
from autotune.report import findings
from autotune.report.gains import MIN_STEPS


class NextCommand(Struct, frozen=True):
    """A command, and what it does."""

    command: str
    why: str


def of_report(report: Report) -> Iterator[NextCommand]:
    """Look at the changes, measure them, read of the first rule, get the data; measure longer where the window was
    short."""
    name, run = shlex.quote(report.name), report.run
    if report.patch:
        written = [each for each in report.recommendations if len(each.changes) > len(each.by_hand)]
        chosen, is_last = _chosen(written), report.name == "last"
        of = "" if is_last else f" {name}"
        yield NextCommand(f"autotune apply{chosen} --diff{of}", "the changes it would write")
        if written and run.command and is_whole(run.command):
            of = "" if is_last else f" --patch {name}"
            yield NextCommand(f"autotune verify{chosen} --budget 10m{of}", "measures before and after")
    if report.recommendations:
        rule = report.recommendations[0].first.rule.id
        yield NextCommand(f"autotune explain {rule}", f"why {rule} fires, and when it does not")
    yield NextCommand(f"autotune report {name} --format html", "also markdown, json")
    is_short = report.step is not None and report.step.steps < MIN_STEPS and run.outcome == "completed"
    if is_short and is_whole(run.command):
        python = f" --python {shlex.quote(run.python)}" if run.python_from == "--python" else ""
        yield NextCommand(f"autotune diagnose{python} --steps 30 -- {typed(run.command)}", "a longer window")


def _chosen(written: Sequence[Recommendation]) -> str:
    """The option without which nothing of a patch is taken: the first change by name, where each needs a decision."""
    is_decided = [any(needs_decision(change.setting, change.effect) for change in each.changes) for each in written]
    return f" --select {written[0].first.rule.id}" if written and all(is_decided) else ""


def of_verified(verified: Verified) -> Iterator[NextCommand]:
    """More pairs where these do not tell; else what the files do not agree with yet."""
    if verified.verdict is Verdict.FASTER and verified.apply_command:
        yield NextCommand(verified.apply_command, "the changes it would write")
    if verified.verdict in (Verdict.SLOWER, Verdict.NO_DIFFERENCE) and verified.undo_command:
        yield NextCommand(verified.undo_command, "takes the changes back")
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


def of_checked(checked: Checked) -> Iterator[NextCommand]:
    """Read of the gravest finding's rule; measure what files cannot say, where the command for that is known whole."""
    found = findings.locate_findings(checked)
    if found:
        rule = found[0].finding.rule.id
        yield NextCommand(f"autotune explain {rule}", f"why {rule} fires, and when it does not")
    undecided = findings.needs_a_run(checked)
    command = findings.diagnose_command(checked)
    if undecided and not command.endswith(findings.COMMAND):
        yield NextCommand(command, f"decides {findings.count(len(undecided), 'rule')} that files alone do not")
