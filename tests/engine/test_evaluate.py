from __future__ import annotations

import pytest
from engine_builders import HERE, TRAIN, evidence, finding, gain, rule, with_settings

from autotune.engine.evaluate import decline, evaluate, evaluate_subject
from autotune.engine.evidence import join
from autotune.model.evidence import RUN, Fact, Location, Setting, Value
from autotune.model.finding import Evaluation, Finding, Gain, Passed, Skipped
from autotune.model.rule import Fix, Limit, Severity, Static


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


@pytest.mark.parametrize(
    ("seen", "answer"),
    [({}, Finding), ({"device.type": "cuda"}, Finding), ({"device.type": "cpu"}, Passed)],
    ids=["no run", "a run that shows it", "a run that shows the contrary"],
)
def test_a_run_takes_back_what_files_say(seen, answer: type) -> None:
    asked = rule(subject=RUN, when="code.uses_cuda", message="on CUDA", limits={}, refuted_by='device.type == "cpu"')
    assert isinstance(evaluate_subject(asked, evidence({"code.uses_cuda": True, **seen}), RUN), answer)


def test_a_run_takes_back_the_static_part_too() -> None:
    part = Static("code.uses_cuda", "maybe on CUDA", Severity.LOW, "low", ())
    asked = rule(
        subject=RUN,
        when="code.uses_cuda and machine.num_gpus > 0",
        message="on CUDA",
        limits={},
        static=part,
        refuted_by='device.type == "cpu"',
    )
    known = evidence({"code.uses_cuda": True, "device.type": "cpu"})
    assert isinstance(evaluate_subject(asked, known, RUN, static=True), Passed)


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
        (
            (Fix(setting="loader.num_workers", value="1", when="loader.shuffles"), Fix(text="by hand")),
            [
                Setting("loader.batch_size", TRAIN, 8, "observed", HERE),
                Setting("loader.num_workers", TRAIN, 0, "static", ELSEWHERE),
            ],
            ELSEWHERE,
        ),
    ],
    ids=[
        "nothing known",
        "of the subject",
        "of another subject",
        "of the run",
        "of the first change",
        "of what only a person can change here",
    ],
)
def test_location(fixes, settings, where) -> None:
    base = with_settings(evidence({"loader.wait_share": 0.72}), *settings)
    found = evaluate_subject(rule(fixes=fixes), base, TRAIN)
    assert isinstance(found, Finding)
    assert found.location == where


FIRST, SECOND = Location("train.py", 7, column=5), Location("train.py", 8)
READS = rule(
    subject=RUN, when="code.uses_ddp and code.num_gc_in_step > 0 and code.uses_cuda", message="{code.num_gc_in_step}"
)


def test_places_are_those_of_the_first_fact_read_that_has_any_and_the_first_of_them_is_the_location() -> None:
    facts = [
        Fact("code.uses_cuda", RUN, True, (ELSEWHERE,)),
        Fact("code.num_gc_in_step", RUN, 2, (FIRST, SECOND)),
        Fact("code.uses_ddp", RUN, True),
    ]
    found = evaluate([READS], join(facts, [])).findings[0]
    assert found.places == (FIRST, SECOND)
    assert found.location == FIRST


def test_the_subject_s_own_places_come_before_the_run_s() -> None:
    facts = [Fact("loader.shuffles", TRAIN, True, (FIRST,)), Fact("loader.shuffles", RUN, True, (SECOND,))]
    found = evaluate([rule(when="loader.shuffles", message="it does", limits={})], join(facts, [])).findings[0]
    assert found.places == (FIRST,)


def test_without_places_the_location_is_that_of_a_setting_that_was_read() -> None:
    asked = rule(subject=RUN, when="train.compile", message="it is", limits={})
    found = evaluate([asked], join([], [Setting("train.compile", RUN, True, "static", HERE)])).findings[0]
    assert (found.places, found.location) == ((), HERE)


OWN = (Fix(text="try workers"),)
STATIC = Static("loader.num_workers < limits.few", "{loader.num_workers} may be few", Severity.MEDIUM, "low", OWN)
LIMITS = {"min_wait": Limit(0.05, "share", "noise"), "few": Limit(2, "workers", "a guess")}
BOTH = rule(static=STATIC, fixes=(Fix(text="wait less"),), limits=LIMITS)


@pytest.mark.parametrize(
    ("values", "severity", "message"),
    [
        ({"loader.num_workers": 1}, Severity.MEDIUM, "1 may be few"),
        ({"loader.num_workers": 2}, None, ""),
        ({}, None, ""),
        ({"loader.num_workers": 1, "loader.wait_share": 0.049}, None, ""),
        ({"loader.num_workers": 1, "loader.wait_share": 0.05}, Severity.HIGH, "5 % of the step waits"),
    ],
    ids=["only files", "files are silent", "nothing known", "a run said no", "a run said yes"],
)
def test_the_static_part_speaks_only_while_the_rule_is_undecided(
    values: dict[str, Value], severity: Severity | None, message: str
) -> None:
    found = evaluate_subject(BOTH, evidence(values), TRAIN, static=True)
    assert (found.rule.severity if isinstance(found, Finding) else None) == severity
    assert (found.message if isinstance(found, Finding) else "") == message


def test_a_static_finding_is_of_the_static_rule_and_advises_what_that_says() -> None:
    found = evaluate_subject(BOTH, evidence({"loader.num_workers": 1}), TRAIN, static=True)
    assert isinstance(found, Finding)
    assert found.rule == BOTH.as_static()
    assert (found.rule.id, found.rule.confidence, found.rule.gain) == (BOTH.id, "low", None)
    assert found.advice == ("try workers",)


def test_what_is_skipped_says_what_a_run_would_tell() -> None:
    answers = [evaluate([BOTH], join([], workers(n)), static=True).skipped for n in (1, 2)]
    assert answers == [(), (Skipped(BOTH, TRAIN, ("loader.wait_share",)),)]


def workers(number: int) -> list[Setting]:
    return [Setting("loader.num_workers", TRAIN, number, "static", HERE)]


def test_without_static_the_part_is_not_asked() -> None:
    assert evaluate([BOTH], join([], workers(1))).findings == ()
    assert len(evaluate([BOTH], join([], workers(1)), static=True).findings) == 1


def test_a_finding_whose_change_gains_nothing_is_declined_unless_it_is_wrong() -> None:
    gains = {"DL001": gain(1.2), "DL002": gain(1.0), "DL003": gain(0.8), "DL004": None, "DL005": gain(0.8)}
    gains |= {"DL006": Gain(1.02, 1.0, 1.049, "modelled"), "DL007": Gain(1.05, 0.9, 1.2, "modelled")}
    gains |= {"DL008": Gain(1.049, 0.99, 1.2, "modelled"), "DL010": Gain(1.02, 1.0, 1.05, "modelled")}
    severities = {"DL005": Severity.CRITICAL}
    found = [finding(name, severity=severities.get(name, Severity.HIGH)) for name in gains]
    passed = Passed(rule("DL009"), TRAIN)
    kept, declined = decline(Evaluation(tuple(found), (), (passed,)), lambda one: gains[one.rule.id])
    assert [(one.rule.id, one.gain) for one in kept.findings] == [
        (name, gains[name]) for name in ("DL001", "DL004", "DL005", "DL007", "DL010")
    ]
    assert [one.rule.id for one in declined] == ["DL002", "DL003", "DL006", "DL008"]
    assert kept.passed == (passed, *(Passed(one.rule, TRAIN) for one in declined))


def test_what_a_run_measured_stands_where_the_static_part_of_its_rule_sees_it() -> None:
    part = Static("code.evaluates_with_grad", "it may", Severity.LOW, "low", ())
    asked = rule(subject=RUN, when="evaluation.with_grad", message="it does", limits={}, static=part)
    facts = [Fact("evaluation.with_grad", RUN, True), Fact("code.evaluates_with_grad", RUN, True, (FIRST,))]
    found = evaluate([asked], join(facts, [])).findings[0]
    assert (found.message, found.location) == ("it does", FIRST)
