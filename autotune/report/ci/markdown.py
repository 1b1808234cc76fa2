"""The result of `check` as GitHub Flavored Markdown, made for a job summary (1 MiB at most)."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.checked import Checked
from autotune.model.rule import Rule
from autotune.outlet import plain
from autotune.report import findings as say
from autotune.report.markdown.markup import code, escape, folded

_MAX_ROWS = 200
_MAX_NOTES = 50


def render(checked: Checked, colour: bool, width: int) -> str:
    """A table of the findings, what to do and why by rule, and what was left out, each folded."""
    verdict = "Fails" if checked.fails or checked.bugs else "Passes"
    blocks = [
        "## autotune check",
        f"**{verdict}**, {escape(say.ending(checked))}: {escape(say.totals(checked))}",
        *_table(checked),
        *_rules(checked),
        *_gates(checked),
        *_skipped_and_notes(checked),
    ]
    return plain("\n\n".join(blocks) + "\n")


def _table(checked: Checked) -> Iterator[str]:
    found = say.locate_findings(checked)
    if not found:
        return
    rows = ["| severity | where | rule | what |", "|---|---|---|---|"]
    for each in found[:_MAX_ROWS]:
        rule = each.finding.rule
        cells = (
            rule.severity,
            code(say.format_location(each.location)),
            escape(rule.id),
            escape(each.finding.message),
        )
        rows.append(f"| {' | '.join(cells)} |")
    yield "\n".join(rows)
    if len(found) > _MAX_ROWS:
        yield f"and {len(found) - _MAX_ROWS:,} more."


def _rules(checked: Checked) -> Iterator[str]:
    by_rule: dict[str, list[say.LocatedFinding]] = {}
    for each in say.locate_findings(checked)[:_MAX_ROWS]:
        by_rule.setdefault(each.finding.rule.id, []).append(each)
    for group in by_rule.values():
        rule = group[0].finding.rule
        body = [*(_what_to_do(each) for each in group), f"**Why:** {escape(rule.why)}", *_references(rule)]
        yield folded(f"{escape(say.title(rule))}: what to do, and why", body)


def _what_to_do(each: say.LocatedFinding) -> str:
    sure = say.confidence(each.finding.rule)
    head = f"- {code(say.format_location(each.location))}{f' ({escape(sure)})' if sure else ''}"
    return "\n".join([head, *(f"  - {label}: {escape(text)}" for label, text in say.remedies(each))])


def _references(rule: Rule) -> Iterator[str]:
    if rule.references:
        yield "\n".join(f"- {escape(text)}" for text in rule.references)


def _gates(checked: Checked) -> Iterator[str]:
    if checked.gates:
        yield "\n".join(f"- {escape(say.gate_line(gate))}" for gate in checked.gates)


def _skipped_and_notes(checked: Checked) -> Iterator[str]:
    skipped = say.needs_a_run(checked)
    if skipped:
        rows = [f"- {escape(say.title(each.rule))}: {escape(', '.join(each.needs))}" for each in skipped]
        run = f"{code(say.diagnose_command(checked))} measures what they need."
        yield folded(f"Needs a run: {say.count(len(skipped), 'rule')}", [run, "\n".join(rows)])
    notes = [f"{note.where}: {note.why}" for note in say.notes(checked)]
    if notes:
        rows = [f"- {escape(text)}" for text in say.first_of(notes, _MAX_NOTES)]
        yield folded(f"Not read or not followed: {say.count(len(notes), 'note')}", ["\n".join(rows)])
    if say.suppressed_counts(checked):
        yield f"Suppressed: {escape(say.suppressed_counts(checked))}"
