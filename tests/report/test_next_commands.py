from __future__ import annotations

import check_builders
import pytest
import report_cases
from msgspec.structs import replace
from report_builders import change, finding, recommendation, report, rule, run, step
from tuned_builders import kept, tuned
from verified_builders import CHANGE, verified

from autotune.model.finding import Recommendation
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.model.verified import Verdict
from autotune.report.next_commands import of_checked, of_report, of_tuned, of_verified


def test_of_a_diagnosis_with_a_patch_its_diff_comes_first() -> None:
    made = replace(report_cases.full(), patch="/p/patch.yaml")
    assert [one.command for one in of_report(made)] == [
        "autotune apply --diff",
        "autotune verify --budget 10m",
        "autotune explain ME001",
        "autotune report last --format html",
    ]


def test_a_name_that_a_shell_would_act_on_is_quoted() -> None:
    made = replace(report_cases.full(), patch="/p/patch.yaml", name="a; rm -r b")
    assert [one.command for one in of_report(made) if "explain" not in one.command] == [
        "autotune apply --diff 'a; rm -r b'",
        "autotune verify --budget 10m --patch 'a; rm -r b'",
        "autotune report 'a; rm -r b' --format html",
    ]


def recommended(number: int, rule_id: str, setting: str, effect: Effect, by_hand: str = "") -> Recommendation:
    made = recommendation(number, finding(rule(rule_id), "m", change(setting, 1, 2, effect=effect)))
    return replace(made, by_hand=(by_hand,) if by_hand else ())


FREE = recommended(1, "DL001", "loader.num_workers", Effect.EQUIVALENT)
RARER_SAVES = recommended(2, "CK001", "checkpoint.interval_steps", Effect.EXACT)
OTHER_MODEL = recommended(3, "PR002", "precision.amp", Effect.ALTERING)
BY_HAND = recommended(4, "BA001", "data.padding", Effect.EXACT, "no collator was found")


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ((FREE, OTHER_MODEL), ""),
        ((RARER_SAVES, OTHER_MODEL), " --select CK001"),
        ((OTHER_MODEL,), " --select PR002"),
        ((BY_HAND, OTHER_MODEL), " --select PR002"),
    ],
)
def test_what_is_suggested_measures_something(found: tuple[Recommendation, ...], chosen: str) -> None:
    made = replace(report(*found, run=run(), step=step(forward=1.0)), patch="/p/patch.yaml")
    first, second, *_ = (one.command for one in of_report(made))
    assert first == f"autotune apply{chosen} --diff"
    assert second == f"autotune verify{chosen} --budget 10m"


@pytest.mark.parametrize(
    "made",
    [
        report(BY_HAND, run=run(), step=step(forward=1.0)),
        report(FREE, run=run(command=("python", "train.py", "--token", "***")), step=step(forward=1.0)),
        report(FREE, run=run(command=()), step=step(forward=1.0)),
    ],
)
def test_what_cannot_be_verified_is_not_suggested(made: Report) -> None:
    commands = [one.command for one in of_report(replace(made, patch="/p/patch.yaml"))]
    assert commands[0] == "autotune apply --diff"
    assert not any("verify" in one for one in commands)


@pytest.mark.parametrize(
    ("effect", "command"),
    [(Effect.EQUIVALENT, "autotune apply --diff"), (Effect.ALTERING, "autotune apply --allow altering --diff")],
)
def test_of_a_search_it_is_the_patch_that_was_proven(effect: Effect, command: str) -> None:
    found = tuned(verified=verified(changes=(replace(CHANGE, effect=effect),)))
    assert [one.command for one in of_tuned(found)] == [command]
    assert list(of_tuned(kept())) == []
    assert list(of_tuned(tuned(verified=verified(changes=(replace(CHANGE, by_hand="set it"),))))) == []


@pytest.mark.parametrize(
    ("verdict", "commands"),
    [
        (Verdict.FASTER, ["autotune apply --diff"]),
        (Verdict.SLOWER, ["autotune undo 3"]),
        (Verdict.NO_DIFFERENCE, ["autotune undo 3"]),
        (Verdict.CANNOT_TELL, []),
    ],
)
def test_of_a_verification_it_is_what_the_files_do_not_agree_with(verdict: Verdict, commands: list[str]) -> None:
    both = verified(verdict=verdict, apply_command="autotune apply --diff", undo_command="autotune undo 3")
    assert [one.command for one in of_verified(both)] == commands
    assert list(of_verified(verified(verdict=verdict))) == []


def test_of_a_verification_it_is_more_pairs_where_these_do_not_tell() -> None:
    asked = "autotune verify --resume train.py"
    assert list(of_verified(verified(resume_command=asked))) == []
    (found,) = of_verified(verified(verdict=Verdict.CANNOT_TELL, resume_command=asked))
    assert found.command == asked


def test_of_files_it_is_the_gravest_rule_and_the_run_that_decides_the_others() -> None:
    made = check_builders.full()
    assert [one.command for one in of_checked(made)] == ["autotune explain DL001", "autotune diagnose -- bash run.sh"]
    (measures,) = of_checked(check_builders.only_skipped())
    assert (measures.command, measures.why) == (
        "autotune diagnose train.py",
        "decides 2 rules that files alone do not",
    )
    assert list(of_checked(check_builders.nothing())) == []


def test_of_files_without_a_command_nothing_is_offered_that_does_not_work_as_it_stands() -> None:
    needs = check_builders.only_skipped().bundles[0].skipped
    made = check_builders.checked(check_builders.bundle("configs/sft.yaml", skipped=needs))
    assert list(of_checked(made)) == []
