"""The printed result of `check`: the findings of each bundle, what was left out, and why it ends as it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autotune.model.checked import Checked, CheckedBundle
from autotune.model.rule import Severity
from autotune.report import check_words as say
from autotune.report.layout import MIN_WIDTH, Line, labelled, paragraph, printed, wrap

_MAX_NAMES = 4
_MAX_NOTES = 10
_STYLES = {Severity.CRITICAL: "bad", Severity.HIGH: "bad", Severity.MEDIUM: "decide"}


def render(checked: Checked, colour: bool, width: int) -> str:
    """The result in lines of at most `width` columns (MIN_WIDTH at least)."""
    width = max(width, MIN_WIDTH)
    blocks = [_bundle(bundle, width) for bundle in checked.bundles if bundle.findings]
    blocks.append(list(_closing(checked, width)))
    lines = [line for block in blocks for line in (Line(""), *block)]
    return printed(lines[1:], colour, width)


def _bundle(bundle: CheckedBundle, width: int) -> list[Line]:
    lines = wrap(f"BUNDLE {_named(bundle)}", width, rest="  ")
    found = [line for each in say.placed_in(bundle) for line in _finding(each, width)]
    return [*_styled(lines, "heading"), *found]


def _named(bundle: CheckedBundle) -> str:
    """ "train.py with sft.yaml, run.sh"."""
    main = bundle.bundle.name
    others = [name for name in bundle.bundle.files if name != main]
    return main + (f" with {', '.join(say.some(others, _MAX_NAMES))}" if others else "")


def _finding(each: say.Placed, width: int) -> Iterator[Line]:
    rule = each.finding.rule
    sure = say.confidence(rule)
    head = f"{say.place(each.location)} {rule.severity} {say.title(rule)}{f' ({sure})' if sure else ''}"
    yield from _styled(wrap(head, width, rest="  "), _STYLES.get(rule.severity, "heading"))
    yield from labelled("seen", each.finding.message, width)
    changed = [change.location for change in each.finding.changes]
    others = [say.place(other) for other in say.other_places(each) if other not in changed]
    if others:
        yield from labelled("also", ", ".join(say.some(others, _MAX_NAMES)), width)
    for label, text in say.remedies(each):
        yield from labelled(label, text, width)


def _styled(lines: list[Line], style: str) -> list[Line]:
    return [replace(line, style=style) for line in lines]


def _closing(checked: Checked, width: int) -> Iterator[Line]:
    skipped = say.needs_a_run(checked)
    if skipped:
        text = f"{say.count(len(skipped), 'rule')} ({say.diagnose_command(checked)})"
        yield from paragraph("Needs a run", text, width)
    for note in _notes(checked):
        yield from paragraph("Note", note, width)
    yield from paragraph("Silenced", say.silenced(checked), width)
    for gate in checked.gates:
        lines = paragraph("Gate", say.gate(gate), width)
        yield from lines if gate.holds else _styled(lines, "bad")
    style = "bad" if checked.fails else "apply"
    yield from _styled(wrap(f"{say.totals(checked)}; {say.ending(checked)}", width, rest="  "), style)


def _notes(checked: Checked) -> list[str]:
    """Broken files first; the others are often many of one kind."""
    return say.some([f"{note.where}: {note.why}" for note in say.notes(checked)], _MAX_NOTES)
