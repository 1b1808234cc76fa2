"""Rules and Evidence -> findings, skipped, passed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autotune.engine.expr import compile_expression
from autotune.engine.fixes import advice_of, changes_of
from autotune.engine.message import render
from autotune.model.evidence import RUN, Evidence, Location
from autotune.model.finding import Change, Evaluation, Finding, Passed, Skipped
from autotune.model.rule import Rule

Outcome = Finding | Skipped | Passed


def evaluate(rules: Iterable[Rule], evidence: Evidence) -> Evaluation:
    """The answer of every rule for every subject of its kind; without one, the rule is skipped."""
    outcomes = [outcome for rule in rules for outcome in _outcomes(rule, evidence)]
    return Evaluation(
        findings=tuple(each for each in outcomes if isinstance(each, Finding)),
        skipped=tuple(each for each in outcomes if isinstance(each, Skipped)),
        passed=tuple(each for each in outcomes if isinstance(each, Passed)),
    )


def evaluate_subject(rule: Rule, evidence: Evidence, subject: str) -> Outcome:
    """The answer of one rule for one subject."""
    answer, missing = compile_expression(rule.when, rule.limits).evaluate(lambda name: evidence.lookup(subject, name))
    if answer is None:
        return Skipped(rule, subject, missing)
    return _finding(rule, evidence, subject) if answer else Passed(rule, subject)


def _outcomes(rule: Rule, evidence: Evidence) -> Iterator[Outcome]:
    subjects = (RUN,) if rule.subject == RUN else evidence.subjects(rule.subject)
    if not subjects:
        yield Skipped(rule, rule.subject, compile_expression(rule.when, rule.limits).names)
    for subject in subjects:
        yield evaluate_subject(rule, evidence, subject)


def _finding(rule: Rule, evidence: Evidence, subject: str) -> Finding:
    changes = changes_of(rule, evidence, subject)
    return Finding(
        rule=rule,
        subject=subject,
        message=render(rule.message, lambda name: evidence.lookup(subject, name), rule.limits),
        changes=changes,
        advice=advice_of(rule, evidence, subject),
        location=_location(changes, evidence, subject),
    )


def _location(changes: tuple[Change, ...], evidence: Evidence, subject: str) -> Location | None:
    """Where the first change stands; else where anything of the subject itself was given."""
    own = (setting.location for (owner, _), setting in evidence.settings.items() if owner == subject != RUN)
    places = [*(change.location for change in changes[:1]), *own]
    return next((place for place in places if place is not None), None)
