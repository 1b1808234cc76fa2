"""Rules and Evidence -> findings, skipped, passed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from autotune.engine.expr import compile_expression
from autotune.engine.fixes import advice_of, changes_of
from autotune.engine.message import render
from autotune.engine.static import needs_a_run
from autotune.model.evidence import RUN, Evidence, Location
from autotune.model.finding import Evaluation, Finding, Gain, Passed, SettingChange, Skipped
from autotune.model.rule import Rule, Severity

Outcome = Finding | Skipped | Passed

LITTLE = 1.05
"""A gain that is smaller is nothing that a verification could tell from none."""


def evaluate(rules: Iterable[Rule], evidence: Evidence, *, static: bool = False) -> Evaluation:
    """The answer of every rule for every subject of its kind; without one, the rule is skipped.

    `static` also asks the [static] part of a rule that is undecided; a finding of it has `rule.as_static()`.
    """
    outcomes = [outcome for rule in rules for outcome in _outcomes(rule, evidence, static)]
    return Evaluation(
        findings=tuple(each for each in outcomes if isinstance(each, Finding)),
        skipped=tuple(each for each in outcomes if isinstance(each, Skipped)),
        passed=tuple(each for each in outcomes if isinstance(each, Passed)),
    )


def decline(evaluation: Evaluation, gain: Callable[[Finding], Gain | None]) -> tuple[Evaluation, tuple[Finding, ...]]:
    """The evaluation with the gain of every finding, without those that would gain nothing here; and these.

    A rule whose change would make this run no faster, or hardly so for all that is known, has nothing to say, nor has
    one whose change may as well make it slower and is expected to gain little; what is wrong (critical) is said.
    """
    findings = [replace(one, gain=gain(one)) for one in evaluation.findings]
    declined = tuple(one for one in findings if _gains_nothing(one))
    passed = (*evaluation.passed, *(Passed(one.rule, one.subject) for one in declined))
    kept = tuple(one for one in findings if not _gains_nothing(one))
    return replace(evaluation, findings=kept, passed=passed), declined


def _gains_nothing(finding: Finding) -> bool:
    gain = finding.gain
    if gain is None or finding.rule.severity is Severity.CRITICAL:
        return False
    return gain.speedup <= 1 or gain.high < LITTLE or (gain.low < 1 and gain.speedup < LITTLE)


def evaluate_subject(rule: Rule, evidence: Evidence, subject: str, *, static: bool = False) -> Outcome:
    """The answer of one rule for one subject."""
    outcome = _decided(rule, evidence, subject)
    if static and isinstance(outcome, Finding) and not any(map(needs_a_run, _condition_names(rule))):
        return replace(outcome, is_minor=_is_minor(rule.as_static(), evidence, subject))
    if not static or not isinstance(outcome, Skipped):
        return outcome
    of_files = _decided(rule.as_static(), evidence, subject)
    return of_files if isinstance(of_files, Finding) else outcome


def _outcomes(rule: Rule, evidence: Evidence, static: bool) -> Iterator[Outcome]:
    subjects = (RUN,) if rule.subject == RUN else evidence.subjects(rule.subject)
    if not subjects and evidence.lookup(RUN, f"{rule.subject}.num_seen") == 0:
        yield Passed(rule, rule.subject)
    elif not subjects:
        yield Skipped(rule, rule.subject, compile_expression(rule.when, rule.limits).names)
    for subject in subjects:
        yield evaluate_subject(rule, evidence, subject, static=static)


def _decided(rule: Rule, evidence: Evidence, subject: str) -> Outcome:
    if _is_refuted(rule, evidence, subject):
        return Passed(rule, subject)
    answer, missing = compile_expression(rule.when, rule.limits).evaluate(lambda name: evidence.lookup(subject, name))
    if answer is None:
        return Skipped(rule, subject, missing)
    return _finding(rule, evidence, subject) if answer else Passed(rule, subject)


def _is_refuted(rule: Rule, evidence: Evidence, subject: str) -> bool:
    """Whether a run shows that what the files say does not hold for it; without a run nothing does."""
    return bool(rule.refuted_by) and _holds(rule.refuted_by, rule, evidence, subject)


def _holds(condition: str, rule: Rule, evidence: Evidence, subject: str) -> bool:
    """Whether a condition of the rule is surely true."""
    answer, _ = compile_expression(condition, rule.limits).evaluate(lambda name: evidence.lookup(subject, name))
    return answer is True


def _condition_names(rule: Rule) -> tuple[str, ...]:
    return compile_expression(rule.when, rule.limits).names


def _is_minor(rule: Rule, evidence: Evidence, subject: str) -> bool:
    return bool(rule.matters) and not _holds(rule.matters, rule, evidence, subject)


def _finding(rule: Rule, evidence: Evidence, subject: str) -> Finding:
    changes = changes_of(rule, evidence, subject)
    names = compile_expression(rule.when, rule.limits).names
    edited = _edited_place(rule, evidence, subject) if not changes else None
    places = () if edited is not None else _places((*names, *_of_files(rule)), evidence, subject)
    share = evidence.lookup(subject, rule.asks_about) if rule.is_question else None
    return Finding(
        rule=rule,
        subject=subject,
        message=render(rule.message, lambda name: evidence.lookup(subject, name), rule.limits),
        changes=changes,
        advice=advice_of(rule, evidence, subject),
        location=edited or _location(changes, places, (*names, *_fixed(rule)), evidence, subject),
        places=places,
        asked_share=share if isinstance(share, float) else None,
        is_minor=_is_minor(rule, evidence, subject),
    )


def _places(names: Iterable[str], evidence: Evidence, subject: str) -> tuple[Location, ...]:
    """Where the files show the first of the facts `names` that has places: those after it are circumstances.

    What a run measures has a place of its own only where it is about lines; else the one fact that the static part of
    its rule reads shows the cause.
    """
    found = (evidence.places.get((owner, name)) for name in names for owner in (subject, RUN))
    return next((places for places in found if places), ())


def _of_files(rule: Rule) -> tuple[str, ...]:
    """The fact that alone decides the static part of a rule: of several some are circumstances."""
    names = tuple(compile_expression(rule.static.when, rule.limits).names) if rule.static is not None else ()
    return names if len(names) == 1 else ()


def _fixed(rule: Rule) -> Iterator[str]:
    """The settings of a rule's fixes: they locate the finding also where only a person can change them."""
    return (fix.setting for fix in rule.fixes if fix.setting)


def _edited_place(rule: Rule, evidence: Evidence, subject: str) -> Location | None:
    """Where the setting stands that a static part names as the one to edit."""
    setting = evidence.setting(subject, rule.at) if rule.at else None
    return setting.location if setting is not None else None


def _location(
    changes: tuple[SettingChange, ...],
    places: tuple[Location, ...],
    names: Iterable[str],
    evidence: Evidence,
    subject: str,
) -> Location | None:
    """Where the first change stands, else a fact, else a setting that was read, else any of the subject itself."""
    read = (setting.location for name in names if (setting := evidence.setting(subject, name)) is not None)
    own = (setting.location for (owner, _), setting in evidence.settings.items() if owner == subject != RUN)
    candidates = [*(change.location for change in changes[:1]), *places, *read, *own]
    return next((place for place in candidates if place is not None), None)
