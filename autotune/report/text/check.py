"""The printed result of `check`: what several bundles share, the findings of each, what was left out, and the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from autotune.model.checked import Checked, CheckedBundle
from autotune.model.rule import Rule, Severity
from autotune.report import findings as say
from autotune.report.labels import words
from autotune.report.text.layout import MIN_WIDTH, StyledLine, paragraph, to_text, with_label, wrap

_MAX_NAMES = 4
_MAX_PLACES = 20
_MAX_NOTES = 10
_STYLES = {Severity.CRITICAL: "bad", Severity.HIGH: "bad", Severity.MEDIUM: "decide"}

Block = tuple[int, list[StyledLine]]
"""Lines that belong together, and the rank of the gravest finding in them."""


def render(checked: Checked, colour: bool, width: int) -> str:
    """The result in lines of at most `width` columns (MIN_WIDTH at least)."""
    width = max(width, MIN_WIDTH)
    blocks = sorted(_blocks(checked, width), key=lambda block: block[0])
    parts = [*(lines for _, lines in blocks), list(_closing(checked, width))]
    return to_text([line for part in parts for line in (StyledLine(""), *part)][1:], colour, width)


def _blocks(checked: Checked, width: int) -> Iterator[Block]:
    groups = say.shared_findings(checked)
    if groups:
        lines = [line for group in groups for line in _group(group, width)]
        yield _rank(groups[0][0]), [StyledLine("SEVERAL BUNDLES", "heading"), *lines]
    grouped = {id(each.finding) for group in groups for each in group}
    for bundle in checked.bundles:
        found = [each for each in say.locate_in_bundle(bundle) if id(each.finding) not in grouped]
        if found:
            lines = [line for each in found for line in _finding(each, width)]
            title = wrap(f"BUNDLE {_bundle_title(bundle)}", width, rest="  ")
            yield _rank(found[0]), [*_with_style(title, "heading"), *lines]


def _rank(each: say.LocatedFinding) -> int:
    return each.finding.rule.severity.rank


def _bundle_title(bundle: CheckedBundle) -> str:
    """ "train.py with sft.yaml, run.sh"."""
    main = bundle.bundle.name
    others = [name for name in bundle.bundle.files if name != main]
    return main + (f" with {', '.join(say.first_of(others, _MAX_NAMES))}" if others else "")


def _group(group: Sequence[say.LocatedFinding], width: int) -> Iterator[StyledLine]:
    """One entry for what a rule says in the same words of several bundles: where, and every different remedy."""
    rule = group[0].finding.rule
    files = say.count(len({each.location.file for each in group}), "file")
    yield from _head(f"{rule.severity} {rule.id} in {files}: {words(rule)}", rule, width)
    differ = len({each.finding.message for each in group}) > 1
    seen = f"{group[0].finding.message}{' (elsewhere with other numbers)' if differ else ''}"
    yield from with_label("seen", seen, width)
    places = dict.fromkeys(
        say.format_location(one) for each in group for one in (each.location, *say.other_places(each))
    )
    yield from with_label("at", ", ".join(say.first_of([*places], _MAX_PLACES)), width)
    remedies = dict.fromkeys(remedy for each in group for remedy in say.remedies(each))
    for label in dict.fromkeys(label for label, _ in remedies):
        for text in say.first_of([text for one, text in remedies if one == label], _MAX_NAMES):
            yield from with_label(label, text, width)


def _finding(each: say.LocatedFinding, width: int) -> Iterator[StyledLine]:
    rule = each.finding.rule
    yield from _head(f"{say.format_location(each.location)} {rule.severity} {say.title(rule)}", rule, width)
    yield from with_label("seen", each.finding.message, width)
    changed = [change.location for change in each.finding.changes]
    others = [say.format_location(other) for other in say.other_places(each) if other not in changed]
    if others:
        yield from with_label("also", ", ".join(say.first_of(others, _MAX_NAMES)), width)
    for label, text in say.remedies(each):
        yield from with_label(label, text, width)


def _head(text: str, rule: Rule, width: int) -> list[StyledLine]:
    sure = say.confidence(rule)
    lines = wrap(f"{text} ({sure})" if sure else text, width, rest="  ")
    return _with_style(lines, _STYLES.get(rule.severity, "heading"))


def _with_style(lines: list[StyledLine], style: str) -> list[StyledLine]:
    return [replace(line, style=style) for line in lines]


def _closing(checked: Checked, width: int) -> Iterator[StyledLine]:
    skipped = say.needs_a_run(checked)
    if skipped:
        text = f"{say.count(len(skipped), 'rule')} ({say.diagnose_command(checked)})"
        yield from paragraph("Needs a run", text, width)
    for note in _notes(checked):
        yield from paragraph("Note", note, width)
    yield from paragraph("Suppressed", say.suppressed_counts(checked), width)
    for gate in checked.gates:
        lines = paragraph("Gate", say.gate_line(gate), width)
        yield from lines if gate.holds else _with_style(lines, "bad")
    style = "bad" if checked.fails or checked.bugs else "apply"
    yield from _with_style(wrap(f"{say.totals(checked)}; {say.ending(checked)}", width, rest="  "), style)


def _notes(checked: Checked) -> list[str]:
    """Broken files first; the others are often many of one kind."""
    return say.first_of([f"{note.where}: {note.why}" for note in say.notes(checked)], _MAX_NOTES)
