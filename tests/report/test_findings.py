from __future__ import annotations

import pytest
from check_builders import (
    CALL,
    FULL_PRECISION,
    KEY,
    NO_WORKERS,
    PRECISION,
    SAVES,
    WORKERS,
    bundle,
    checked,
    finding,
    full,
    nothing,
)
from msgspec.structs import replace
from report_builders import rule, skipped

from autotune.model.checked import CheckedBundle, Gate
from autotune.model.evidence import Location
from autotune.model.finding import SettingChange
from autotune.model.rule import Effect, Severity
from autotune.model.scanned import ScanNote
from autotune.report import findings as say


def placed(message: str = "", *changes: SettingChange, advice: tuple[str, ...] = ()) -> say.LocatedFinding:
    return say.bundle_location(bundle("train.py"), finding(SAVES, message, CALL, *changes, advice=advice))


def change(
    old: object, new: object, where: Location | None = None, spelling: str = "", note: str = ""
) -> SettingChange:
    return SettingChange("train.tf32", old, new, Effect.EQUIVALENT, where, spelling, note)  # type: ignore[arg-type]


def test_the_gravest_comes_first_whatever_its_bundle_then_the_place() -> None:
    low = finding(SAVES, "", Location("a.py", 1))
    late = finding(FULL_PRECISION.rule, "", Location("a.py", 50))
    made = checked(bundle("a.py", low, late), bundle("b.py", FULL_PRECISION, NO_WORKERS))
    assert [each.finding for each in say.locate_findings(made)] == [NO_WORKERS, late, FULL_PRECISION, low]


def test_a_finding_without_a_place_stands_at_the_top_of_the_main_file() -> None:
    (each,) = say.locate_in_bundle(bundle("configs/ds.json", finding(SAVES, "")))
    assert each.location == Location("configs/ds.json", 1)


@pytest.mark.parametrize(
    ("location", "expected"), [(Location("a.py", 3), "a.py:3"), (Location("a.py", 3, column=7), "a.py:3:7")]
)
def test_a_place(location: Location, expected: str) -> None:
    assert say.format_location(location) == expected


def test_places_that_are_shown_already_are_not_repeated() -> None:
    again = Location("train.py", 23, "other", 14)
    each = say.bundle_location(bundle("train.py"), finding(SAVES, "", CALL, places=(again, KEY, KEY)))
    assert say.other_places(each) == (KEY,)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (change(False, True, CALL, "tf32"), "tf32: False -> True (same training)"),
        (change(False, True, KEY, "tf32"), "configs/sft.yaml:4:25 tf32: false -> true (same training)"),
        (change(None, "high"), 'train.tf32: unset -> "high" (same training)'),
        (change(None, True, CALL, "tf32=True"), "tf32=True (same training)"),
    ],
)
def test_a_change_is_written_as_its_file_writes_it(of: SettingChange, expected: str) -> None:
    assert list(say.remedies(placed("", of))) == [("fix", expected)]


def test_every_effect_has_words() -> None:
    assert set(say.EFFECTS) == set(Effect)


def test_advice_is_the_fix_where_no_setting_is_one() -> None:
    assert list(say.remedies(placed(advice=("do this",)))) == [("fix", "do this")]


def test_notes_follow_the_changes_once_and_advice_is_the_other_way() -> None:
    twice = (change(0, 1, CALL, note="mind this"), change(0, 2, CALL, note="mind this"))
    labels = [label for label, _ in say.remedies(placed("", *twice, advice=("do this",)))]
    assert labels == ["fix", "fix", "note", "or"]


def test_confidence_is_said_when_it_is_not_high() -> None:
    assert say.confidence(rule(confidence="high")) == ""
    assert say.confidence(rule(confidence="low")) == "low confidence"


def test_a_rule_that_several_bundles_need_a_run_for_is_counted_once() -> None:
    assert [each.rule.id for each in say.needs_a_run(full())] == ["CK001", "DL002"]


@pytest.mark.parametrize(
    ("needs", "helps"),
    [
        (("config.fsdp_is_legacy",), False),
        (("code.accumulation_mistake", "code.accumulates"), False),
        (("code.num_gc_in_step", "calls.gc_per_step"), True),
        (("train.profiler",), True),
    ],
)
def test_what_only_files_show_needs_no_run(needs: tuple[str, ...], helps: bool) -> None:
    made = checked(bundle("a.py", skipped=(skipped("XX001", *needs),)))
    assert [each.rule.id for each in say.needs_a_run(made)] == ["XX001"] * helps


@pytest.mark.parametrize(
    ("bundles", "cwd", "expected"),
    [
        ([bundle("sft.yaml"), bundle("my train.py")], "", "autotune diagnose 'my train.py'"),
        ([bundle("train.py"), bundle("run.sh")], "", "autotune diagnose -- bash run.sh"),
        ([bundle("pkg/train.py", files=("pkg/train.py", "run.sh"))], "", "autotune diagnose -- bash run.sh"),
        (
            [bundle("train.py", files=("jobs/a.sbatch", "train.py"))],
            "",
            "in jobs/a.sbatch: autotune diagnose -- COMMAND",
        ),
        ([bundle("pkg/model.py", starts=False), bundle("train.py")], "", "autotune diagnose train.py"),
        ([bundle("pkg/model.py", starts=False)], "", "autotune diagnose -- COMMAND"),
        ([bundle("sft.yaml")], "", "autotune diagnose -- COMMAND"),
        ([bundle("train.py")], "/repo/docs", "autotune diagnose ../train.py"),
        ([bundle("train.py")], "/repo", "autotune diagnose train.py"),
        ([bundle("pkg/train.py", is_module=True)], "", "autotune diagnose -m pkg.train"),
        ([bundle("a/pkg/train.py", is_module=True)], "/repo/a", "autotune diagnose -m pkg.train"),
        (
            [bundle("src/pkg/train.py", is_module=True, home="./src")],
            "",
            "cd /repo/src && autotune diagnose -m pkg.train",
        ),
        ([bundle("src/train.py", is_module=True, home=".")], "/repo/src", "cd /repo && autotune diagnose -m src.train"),
        ([bundle("pkg/train.py", is_module=True)], "/", "cd /repo && autotune diagnose -m pkg.train"),
        ([bundle("pkg/train.py", is_module=True)], "/repo/docs", "cd /repo && autotune diagnose -m pkg.train"),
    ],
)
def test_what_to_type_for_a_run(bundles: list[CheckedBundle], cwd: str, expected: str) -> None:
    made = replace(checked(*bundles), root="/repo", cwd=cwd)
    assert say.diagnose_command(made) == expected


def test_a_module_is_started_above_the_package_in_which_it_was_asked_for(tmp_path) -> None:
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "src" / "pkg" / "__init__.py").touch()
    made = checked(bundle("src/pkg/train.py", is_module=True))
    asked = replace(made, root=str(tmp_path), cwd=str(tmp_path / "src" / "pkg"))
    assert say.diagnose_command(asked) == f"cd {tmp_path}/src && autotune diagnose -m pkg.train"


def test_broken_files_come_first_and_a_note_comes_once() -> None:
    big, broken = ScanNote("a", "too big"), ScanNote("b", "a tab", is_error=True)
    assert say.notes(checked(notes=(big, broken, big))) == (broken, big)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (Gate("step.median_ms", 81.25, 80.0, False, ""), "step.median_ms 81.25, limit 80: not met"),
        (Gate("step.median_ms", 79.0, 80.0, True, "as asked"), "step.median_ms 79, limit 80: met (as asked)"),
        (Gate("loader.wait_share", None, 0.1, False, ""), "loader.wait_share not known, limit 0.1: not met"),
    ],
)
def test_a_gate(of: Gate, expected: str) -> None:
    assert say.gate_line(of) == expected


def test_totals() -> None:
    assert say.totals(full()) == "14 files, 2 bundles, 72 rules: 3 findings (1 high, 1 medium, 1 low)"
    assert say.totals(nothing()) == "3 files: no training was recognised"
    assert say.totals(checked(num_files=0)) == "no file to read: no training was recognised"


BROKEN = (Gate("step.median_ms", 2.0, 1.0, False, ""),)


@pytest.mark.parametrize(
    ("fail_on", "gates", "expected"),
    [
        (Severity.HIGH, (), "exit 1: 1 finding at or above high"),
        (Severity.MEDIUM, (), "exit 1: 2 findings at or above medium"),
        (Severity.CRITICAL, (), "exit 0: no finding at or above critical"),
        (None, (), "exit 0: findings do not fail the check"),
        (None, BROKEN, "exit 1: 1 gate not met"),
        (Severity.CRITICAL, BROKEN, "exit 1: 1 gate not met"),
        (Severity.HIGH, BROKEN, "exit 1: 1 finding at or above high, 1 gate not met"),
    ],
)
def test_why_it_ends_as_it_does(fail_on: Severity | None, gates: tuple[Gate, ...], expected: str) -> None:
    made = checked(bundle("train.py", NO_WORKERS, FULL_PRECISION), fail_on=fail_on, gates=gates)
    assert say.ending(made) == expected


def test_where_nothing_is_found_there_is_nothing_to_explain() -> None:
    assert say.ending(checked(bundle("train.py"))) == "exit 0"
    assert say.ending(checked(bundle("train.py"), gates=BROKEN)) == "exit 1: 1 gate not met"


def test_what_differs_in_numbers_alone_is_one_group_also_within_one_script() -> None:
    small = [finding(WORKERS, f"micro-batches of {n} x 1,024", Location(f"{n}.json", 3)) for n in (1, 2)]
    types = [finding(PRECISION, f"computes in float{n} on torch {n}.1", Location(f"{n}.json", 3)) for n in (16, 32)]
    made = checked(bundle("train.py", *small, *types))
    assert [[each.finding for each in group] for group in say.shared_findings(made)] == [small]


def test_what_several_bundles_share_is_one_group_in_order_of_gravity() -> None:
    again = [finding(WORKERS, "0 workers", Location(name, 3)) for name in ("a.py", "b.py")]
    saves = [finding(SAVES, "kept", Location(name, 9)) for name in ("a.py", "b.py")]
    other = finding(WORKERS, "1 worker", Location("b.py", 5))
    twice = (finding(PRECISION, "fp32", Location("b.py", 1)), finding(PRECISION, "fp32", Location("b.py", 2)))
    made = checked(bundle("a.py", saves[0], again[0]), bundle("b.py", saves[1], again[1], other, *twice))
    assert [[each.finding for each in group] for group in say.shared_findings(made)] == [again, saves]


def test_silenced_are_counted_by_what_silences_them() -> None:
    assert say.suppressed_counts(full()) == "2 findings (baseline 1, comment 1)"
    assert say.suppressed_counts(nothing()) == ""


def test_a_long_list_ends_with_how_many_more() -> None:
    assert say.first_of(["a", "b", "c"], 2) == ["a", "b", "and 1 more"]
    assert say.first_of(["a", "b"], 2) == ["a", "b"]


def test_needs_a_run_names_the_facts_of_the_first_bundle() -> None:
    made = checked(bundle("a.py", skipped=(skipped("DL002", "a"),)), bundle("b.py", skipped=(skipped("DL002", "b"),)))
    assert [each.needs for each in say.needs_a_run(made)] == [("a",)]
