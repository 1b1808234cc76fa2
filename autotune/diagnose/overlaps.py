"""Findings that say of one place what another finding says better: a question about a line whose cause is known."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.catalogue import facts
from autotune.model.evidence import Evidence
from autotune.model.finding import Finding
from autotune.report.labels import phases

LEAST_PART = 0.5
"""Of a line's share: a finding that gains less leaves the line open."""

REPAIRED_FIRST = {"DD020": "DD006"}
"""Steps without averaging are those of ranks that run apart: beside a late rank the bound holds waits for it, too."""


def without_overlaps(
    findings: Sequence[Finding], evidence: Evidence
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings, and those that are left out.

    A question about a line is left out where another finding is about the same lines, about a loop or a result that
    the line is part of, or gains most of the line's time in its phase. Of findings of one rule about loops in each
    other, the outer one stays. A bound that holds what another finding loses comes when that one is repaired.
    """
    left_out = [one for one in findings if any(_covers(other, one, evidence) for other in findings if other is not one)]
    return tuple(one for one in findings if one not in left_out), tuple(left_out)


def _covers(other: Finding, one: Finding, evidence: Evidence) -> bool:
    if other.rule.is_question:
        return False
    if one.rule.is_question:
        return _is_around(other, one, evidence) or _shares_lines(other, one) or _gains_it(other, one, evidence)
    if REPAIRED_FIRST.get(one.rule.id) == other.rule.id:
        return True
    return other.rule.id == one.rule.id and _contains(other, one)


def _is_around(other: Finding, one: Finding, evidence: Evidence) -> bool:
    inside = evidence.lookup(one.subject, "line.inside")
    return isinstance(inside, str) and other.subject in inside.split(", ")


def _shares_lines(other: Finding, one: Finding) -> bool:
    a, b = other.location, one.location
    if a is None or b is None or a.file != b.file:
        return False
    return a.line <= max(b.line, b.end_line) and b.line <= max(a.line, a.end_line)


def _contains(other: Finding, one: Finding) -> bool:
    a, b = other.location, one.location
    if a is None or b is None or a.file != b.file or not a.end_line:
        return False
    return a.line < b.line and max(b.line, b.end_line) <= a.end_line


def _gains_it(other: Finding, one: Finding, evidence: Evidence) -> bool:
    if other.gain is None or one.asked_share is None:
        return False
    phase = evidence.lookup(one.subject, "line.phase")
    at = {phase} if phase is not None else {*facts()[one.rule.asks_about].phases}
    return bool(at & phases(other.rule)) and other.gain.share >= LEAST_PART * one.asked_share
