from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from autotune.check.baseline import fingerprint, suppress_by_baseline
from autotune.check.configuration import Configuration
from autotune.check.suppression import suppress_by_person, unknown_rules
from autotune.engine.load import load_rules
from autotune.model.checked import CheckedBundle, Silenced
from autotune.model.evidence import Location
from autotune.model.finding import Finding
from autotune.model.scanned import Bundle, IgnoreComment, ScanNote

RULE = next(rule for rule in load_rules() if rule.id == "DL001")
HERE, THERE = Location("train.py", 5, "DataLoader", end_line=8), Location("lib/data.py", 3)


def finding(location: Location | None = HERE, *places: Location) -> Finding:
    return Finding(RULE, "run", "m", (), location=location, places=places)


def checked(*findings: Finding, ignored: tuple[IgnoreComment, ...] = ()) -> CheckedBundle:
    return CheckedBundle(Bundle("train.py", (), (), (), (), ignored=ignored), findings, (), 0)


def comment(line: int, file: str = "train.py", rule: str = "DL001") -> IgnoreComment:
    return IgnoreComment(file, line, line, rule, "the data is small")


@pytest.mark.parametrize("line", [0, 5, 6, 8])
def test_a_comment_in_the_lines_of_the_call_silences(line: int) -> None:
    one = finding()
    result = suppress_by_person(checked(one, ignored=(comment(line),)), Configuration())
    assert result.findings == ()
    assert result.silenced == (Silenced(one, "comment", "the data is small"),)


@pytest.mark.parametrize(
    "ignored",
    [comment(4), comment(9), comment(5, file="other.py"), comment(5, rule="DL002"), comment(0, file="other.py")],
)
def test_a_comment_elsewhere_does_not(ignored: IgnoreComment) -> None:
    given = checked(finding(), ignored=(ignored,))
    assert suppress_by_person(given, Configuration()) == given


@pytest.mark.parametrize(("line", "end_line", "covers"), [(3, 5, True), (8, 9, True), (3, 4, False), (9, 10, False)])
def test_a_comment_above_is_for_its_own_line_and_the_code_below(line: int, end_line: int, covers: bool) -> None:
    above = IgnoreComment("train.py", line, end_line, "DL001", "the data is small")
    result = suppress_by_person(checked(finding(), ignored=(above,)), Configuration())
    assert (result.findings == ()) is covers


def test_patterns_of_files_silence() -> None:
    config = Configuration(per_file_ignores={"lib": ("AT", "DL0"), "train.py": ("SY",)})
    result = suppress_by_person(checked(finding(), finding(THERE)), config)
    assert [one.location for one in result.findings] == [HERE]
    assert [(one.by, one.reason) for one in result.silenced] == [("configuration", "per-file-ignores of lib")]


def test_a_finding_stays_while_one_of_its_places_is_open() -> None:
    several = finding(HERE, HERE, THERE)
    open_there = suppress_by_person(checked(several, ignored=(comment(5),)), Configuration())
    assert [one.location for one in open_there.findings] == [THERE]
    both = suppress_by_person(checked(several, ignored=(comment(5), comment(3, "lib/data.py"))), Configuration())
    assert (both.findings, len(both.silenced)) == ((), 1)


def test_places_of_what_a_finding_merely_read_do_not_keep_it() -> None:
    assert suppress_by_person(checked(finding(HERE, THERE), ignored=(comment(5),)), Configuration()).findings == ()


def test_a_finding_without_a_place_belongs_to_the_main_file() -> None:
    nowhere = finding(None)
    assert suppress_by_person(checked(nowhere, ignored=(comment(0),)), Configuration()).findings == ()
    assert suppress_by_person(checked(nowhere, ignored=(comment(1),)), Configuration()).findings == (nowhere,)


def test_a_baseline_silences_as_many_as_it_holds(tmp_path: Path) -> None:
    mark = fingerprint(finding(), HERE, tmp_path)
    result = suppress_by_baseline(checked(finding(), finding(), finding(THERE)), Counter({mark: 1}), tmp_path, "b.json")
    assert [one.location for one in result.findings] == [HERE, THERE]
    assert [(one.by, one.reason) for one in result.silenced] == [("baseline", "b.json")]


def test_a_baseline_holds_places_and_a_new_one_is_shown(tmp_path: Path) -> None:
    old = Counter(fingerprint(finding(), place, tmp_path) for place in (HERE, HERE))
    both, more = finding(HERE, HERE, HERE), finding(HERE, HERE, HERE, THERE)
    assert suppress_by_baseline(checked(both), old.copy(), tmp_path, "b.json").findings == ()
    assert [one.location for one in suppress_by_baseline(checked(more), old, tmp_path, "b.json").findings] == [THERE]


def test_the_beginning_of_rules_is_refused_and_a_rule_named() -> None:
    (note,) = unknown_rules([checked(ignored=(comment(0, rule=RULE.id[:2]),)).bundle], [RULE])
    assert note.where == "train.py"
    assert note.why.endswith(f'no rule is called "{RULE.id[:2]}"; a comment names whole rules, like {RULE.id}')


def test_unknown_rules_are_noted_once() -> None:
    bundles = [checked(ignored=(comment(5), comment(7, rule="DL01"), comment(0, rule="X"))).bundle] * 2
    assert list(unknown_rules(bundles, [RULE])) == [
        ScanNote("train.py:7", 'this comment suppresses nothing: no rule is called "DL01"'),
        ScanNote("train.py", 'this comment suppresses nothing: no rule is called "X"'),
    ]
