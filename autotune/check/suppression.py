"""Findings that are not reported: a comment, the configuration or the baseline says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from autotune.check import baseline
from autotune.check.configuration import Configuration, rule_selectors
from autotune.model.checked import CheckedBundle, Silenced
from autotune.model.evidence import Location
from autotune.model.finding import Finding
from autotune.model.rule import Rule
from autotune.model.scanned import Bundle, IgnoreComment, ScanNote
from autotune.scan.files import matches

COMMENT, CONFIGURATION, BASELINE = "comment", "configuration", "baseline"

Judge = Callable[[Finding, Location], Silenced | None]


def suppressed_by_comment(checked: CheckedBundle, configuration: Configuration) -> CheckedBundle:
    """Silence the findings all of whose places a comment or per-file-ignores covers; the others keep an open place."""
    return _sorted_out(checked, lambda finding, place: _by_person(finding, place, checked, configuration))


def suppressed_by_baseline(checked: CheckedBundle, counts: Counter[str], root: Path, file: str) -> CheckedBundle:
    """Silence the findings all of whose places `counts` still holds, and count them off; the others show a new one."""

    def judge(finding: Finding, place: Location) -> Silenced | None:
        mark = baseline.fingerprint(finding, place, root)
        counts[mark] -= 1
        return Silenced(finding, BASELINE, file) if counts[mark] >= 0 else None

    return _sorted_out(checked, judge)


def places_of(finding: Finding, checked: CheckedBundle) -> tuple[Location, ...]:
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


def _sorted_out(checked: CheckedBundle, judge: Judge) -> CheckedBundle:
    kept: list[Finding] = []
    silenced: list[Silenced] = []
    for finding in checked.findings:
        places = places_of(finding, checked)
        answers = [judge(finding, place) for place in places]
        is_open = [place for place, answer in zip(places, answers, strict=True) if answer is None]
        if is_open:
            kept.append(replace(finding, location=is_open[0]) if is_open[0].line else finding)
        else:
            silenced += [answer for answer in answers[:1] if answer is not None]
    return replace(checked, findings=tuple(kept), silenced=(*checked.silenced, *silenced))


def _by_person(
    finding: Finding, place: Location, checked: CheckedBundle, configuration: Configuration
) -> Silenced | None:
    rule = finding.rule.id
    for each in checked.bundle.ignored:
        if each.rule == rule and each.file == place.file and _covers(each, place):
            return Silenced(finding, COMMENT, each.reason)
    for pattern, selectors in configuration.per_file_ignores.items():
        if matches(place.file, [pattern]) and rule_selectors(selectors, rule):
            return Silenced(finding, CONFIGURATION, f"per-file-ignores of {pattern}")
    return None


def _covers(comment: IgnoreComment, place: Location) -> bool:
    """Whether a comment of the file is for `place`, which may be a call of several lines."""
    return comment.line == 0 or (comment.line <= max(place.line, place.end_line) and place.line <= comment.end_line)
