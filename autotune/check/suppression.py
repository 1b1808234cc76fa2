"""Findings that are not reported, because a comment or the configuration says so; the baseline is in baseline.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from autotune.check.configuration import Configuration, matches_rule
from autotune.model.checked import ASIDE, COMMENT, CONFIGURATION, MINOR, CheckedBundle, Silenced
from autotune.model.evidence import Location
from autotune.model.finding import Finding
from autotune.model.rule import Rule, Severity
from autotune.model.scanned import Bundle, IgnoreComment, ScanNote
from autotune.scan.files import matches

Judge = Callable[[Finding, Location], Silenced | None]


def suppress_by_person(checked: CheckedBundle, configuration: Configuration) -> CheckedBundle:
    """Silence the findings all of whose places a comment or per-file-ignores covers; the others keep an open place."""
    return suppress(checked, lambda finding, place: _judge_of_person(finding, place, checked, configuration))


def suppress_minor(checked: CheckedBundle) -> CheckedBundle:
    """Silence minor findings."""
    return suppress(checked, lambda finding, place: Silenced(finding, MINOR, "") if finding.is_minor else None)


def suppress_aside(checked: CheckedBundle, named: Iterable[str], why_aside: Callable[[str], str]) -> CheckedBundle:
    """Silence findings in files that `why_aside` gives a reason for, but for critical ones and for files and folders
    below the root that the user named."""
    chosen = [name for name in named if name != "."]

    def judge(finding: Finding, place: Location) -> Silenced | None:
        is_named = any(f"{place.file}/".startswith(f"{one}/") for one in chosen)
        if is_named or finding.rule.severity is Severity.CRITICAL:
            return None
        why = why_aside(place.file)
        return Silenced(finding, ASIDE, why) if why else None

    return suppress(checked, judge)


def finding_places(finding: Finding, checked: CheckedBundle) -> tuple[Location, ...]:
    """Where a finding stands; the bundle's main file when nothing shows it.

    Where a value stands is one place; what a script does, it may do in several.
    """
    first = finding.location or Location(checked.bundle.name, 0)
    return finding.places if first in finding.places else (first,)


def unknown_rules(bundles: Iterable[Bundle], rules: Iterable[Rule]) -> Iterator[ScanNote]:
    """Comments that name a rule which does not exist."""
    known = {rule.id for rule in rules}
    for each in dict.fromkeys(each for bundle in bundles for each in bundle.ignored):
        if each.rule not in known:
            where = f"{each.file}:{each.line}" if each.line else each.file
            begun = sorted(rule for rule in known if rule.startswith(each.rule))
            why = f"; a comment names whole rules, like {begun[0]}" if begun else ""
            yield ScanNote(where, f'this comment suppresses nothing: no rule is called "{each.rule}"{why}')


def suppress(checked: CheckedBundle, judge: Judge) -> CheckedBundle:
    """Silence the findings of all of whose places `judge` says so; the others show the first of their open places."""
    reported: list[Finding] = []
    silenced: list[Silenced] = []
    for finding in checked.findings:
        places = finding_places(finding, checked)
        answers = [judge(finding, place) for place in places]
        is_open = [place for place, answer in zip(places, answers, strict=True) if answer is None]
        if is_open:
            reported.append(replace(finding, location=is_open[0]) if is_open[0].line else finding)
        else:
            silenced += [answer for answer in answers[:1] if answer is not None]
    return replace(checked, findings=tuple(reported), silenced=(*checked.silenced, *silenced))


def _judge_of_person(
    finding: Finding, place: Location, checked: CheckedBundle, configuration: Configuration
) -> Silenced | None:
    rule = finding.rule.id
    for each in checked.bundle.ignored:
        if each.rule == rule and each.file == place.file and _covers(each, place):
            return Silenced(finding, COMMENT, each.reason)
    for pattern, selectors in configuration.per_file_ignores.items():
        if matches(place.file, [pattern]) and matches_rule(selectors, rule):
            return Silenced(finding, CONFIGURATION, f"per-file-ignores of {pattern}")
    return None


def _covers(comment: IgnoreComment, place: Location) -> bool:
    """Whether a comment of the file is for `place`, which may be a call of several lines."""
    return comment.line == 0 or (comment.line <= max(place.line, place.end_line) and place.line <= comment.end_line)
