from __future__ import annotations

import pytest
from engine_builders import HERE, TRAIN, evidence, rule, with_settings

from autotune.engine import evaluate, join
from autotune.engine.evaluate import evaluate_subject
from autotune.model.evidence import RUN, Fact, Location, Setting
from autotune.model.finding import Finding, Passed, Skipped
from autotune.model.rule import Fix


@pytest.mark.parametrize(
    ("values", "answer"),
    [({"loader.wait_share": 0.05}, Finding), ({"loader.wait_share": 0.049}, Passed), ({}, Skipped)],
)
def test_three_answers(values, answer: type) -> None:
    assert isinstance(evaluate_subject(rule(), evidence(values), TRAIN), answer)


def test_a_finding_has_message_advice_and_subject() -> None:
    asked = rule(fixes=(Fix(text="wait\n  less than {loader.wait_share}"), Fix(text="no", when="loader.is_train")))
    found = evaluate_subject(asked, evidence({"loader.wait_share": 0.72}), TRAIN)
    assert found == Finding(asked, TRAIN, "72 % of the step waits", (), ("wait less than 72 %",))


def test_skipped_says_what_it_needs() -> None:
    asked = rule(when="loader.is_train and loader.wait_share >= limits.min_wait")
    assert evaluate_subject(asked, evidence({"loader.is_train": True}), TRAIN) == Skipped(
        asked, TRAIN, ("loader.wait_share",)
    )


def test_a_rule_runs_once_for_each_subject_of_its_kind() -> None:
    facts = [
        Fact("loader.wait_share", "loader#train", 0.72),
        Fact("loader.wait_share", "loader#1", 0.01),
        Fact("loader.is_train", "loader#2", False),
        Fact("optimizer.step_ms", "optimizer#0", 1.0),
    ]
    answers = evaluate([rule()], join(facts, []))
    assert [each.subject for each in answers.findings] == ["loader#train"]
    assert [each.subject for each in answers.passed] == ["loader#1"]
    assert [(each.subject, each.needs) for each in answers.skipped] == [("loader#2", ("loader.wait_share",))]


def test_without_a_subject_the_rule_is_skipped_for_all_of_its_facts() -> None:
    asked = rule(when="loader.is_train and loader.wait_share >= limits.min_wait")
    answers = evaluate([asked], join([], []))
    assert answers.skipped == (Skipped(asked, "loader", ("loader.is_train", "loader.wait_share")),)


def test_a_rule_about_the_run_always_has_its_subject() -> None:
    asked = rule(subject=RUN, when="step.mean_ms > 0", message="{step.mean_ms}", limits={})
    assert evaluate([asked], join([], [])).skipped == (Skipped(asked, RUN, ("step.mean_ms",)),)
    assert evaluate([asked], join([Fact("step.mean_ms", RUN, 5.0)], [])).findings[0].message == "5 ms"


ELSEWHERE = Location("train.py", 99, "DataLoader")


@pytest.mark.parametrize(
    ("fixes", "settings", "where"),
    [
        ((), [], None),
        ((), [Setting("loader.batch_size", TRAIN, 8, "observed", HERE)], HERE),
        ((), [Setting("loader.batch_size", "loader#2", 8, "observed", HERE)], None),
        ((), [Setting("train.compile", RUN, True, "observed", HERE)], None),
        (
            (Fix(setting="loader.num_workers", value="1"),),
            [
                Setting("loader.batch_size", TRAIN, 8, "observed", HERE),
                Setting("loader.num_workers", TRAIN, 0, "observed", ELSEWHERE),
            ],
            ELSEWHERE,
        ),
    ],
    ids=["nothing known", "of the subject", "of another subject", "of the run", "of the first change"],
)
def test_location(fixes, settings, where) -> None:
    base = with_settings(evidence({"loader.wait_share": 0.72}), *settings)
    found = evaluate_subject(rule(fixes=fixes), base, TRAIN)
    assert isinstance(found, Finding)
    assert found.location == where
