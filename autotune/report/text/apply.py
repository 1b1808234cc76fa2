"""What `apply` prints before it writes: the changes with their gains, those that are left out, and the diff."""

from __future__ import annotations

from collections.abc import Iterator

import click

from autotune.model.applied import ApplyPlan
from autotune.model.patch import PatchChange
from autotune.outlet import plain
from autotune.report.diff import unified
from autotune.report.gains import format_interval

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def render(plan: ApplyPlan, colour: bool, width: int) -> str:
    """The changes, then the unified diff of all files; lines of files are never cut."""
    lines = [plain(line) for line in _changes(plan)]
    for line in unified(plan.files, plan.root):
        body = line.removesuffix("\n")
        # What stands before a line feed moves nothing on a terminal, and `git apply` compares it with the file.
        end = "\r" if body.endswith("\r") else ""
        text = plain(body.removesuffix("\r"))
        lines.append((click.style(text, fg=_COLOURS.get(line[0])) if colour else text) + end)
    return "".join(f"{line}\n" for line in lines)


def _changes(plan: ApplyPlan) -> Iterator[str]:
    """The changes with their predicted gains, those that are not made, and the values whose place has moved."""
    for change in plan.chosen:
        yield f"{_title(change)}{f'  {change.gain}' if change.gain else ''}"
    if sum(bool(change.gain) for change in plan.chosen) > 1:
        yield _together(plan)
    for change, reason in plan.left:
        yield f"{_title(change)}: not written, {reason}"
    yield from plan.moved


def _together(plan: ApplyPlan) -> str:
    if plan.gain is not None:
        return f"Together {format_interval(plan.gain)}, {plan.gain.basis}"
    rules = dict.fromkeys(rule for change in plan.chosen if not change.gain for rule in change.rules)
    why = f": the gain of {', '.join(rules)} is not estimated" if rules else ""
    return f"Their combined gain is unknown{why}."


def _title(change: PatchChange) -> str:
    old = "unset" if change.old is None else change.old
    return f"{' '.join(change.rules)} {change.setting}: {old} -> {change.new} ({change.effect.value})"
