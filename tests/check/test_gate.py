from __future__ import annotations

import pytest

from autotune.check.profile import fact_name, limits, regression
from autotune.errors import UsageError
from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Evaluation
from autotune.model.report import Report, RunSummary, Step

Facts = dict[str, dict[str, object]]


def report(facts: Facts, samples_per_s: float | None = None) -> Report:
    step = Step(10, 100.0, 100.0, 100.0, {}, samples_per_s=samples_per_s)
    run = RunSummary((), "completed", folder="run")
    return Report(run, {}, {}, step, Evidence(facts), Evaluation((), (), ()), ())


def timed(median_ms: float, noise: float | None = 0.01, samples_per_s: float | None = None) -> Report:
    facts = {"step.median_ms": median_ms, "step.noise_share": noise}
    return report({RUN: {name: value for name, value in facts.items() if value is not None}}, samples_per_s)


@pytest.mark.parametrize(
    ("name", "fact"),
    [("data_wait_share", "step.data_wait_share"), ("step.data_wait_share", "step.data_wait_share")],
)
def test_a_fact_is_named_with_or_without_its_subject(name: str, fact: str) -> None:
    assert fact_name(name) == fact


@pytest.mark.parametrize(
    ("name", "said", "to_do"),
    [
        ("data_wait_shar", "there is no fact", ""),
        ("step.data_wait_shar", "there is no fact", "Did you mean step.data_wait_share?"),
        ("run.framework", "there is no fact with a number", ""),
        ("batch_size", "there is no fact", ""),
    ],
)
def test_a_name_of_no_number_is_a_mistake(name: str, said: str, to_do: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        fact_name(name)
    assert to_do in raised.value.to_do


def test_a_name_of_several_facts_lists_them() -> None:
    with pytest.raises(UsageError, match="several facts are called") as raised:
        fact_name("cost_share")
    assert raised.value.to_do.startswith("Write one of: ")


@pytest.mark.parametrize(("value", "holds"), [(0.1, True), (0.1001, False), (0.0, True)])
def test_a_fact_may_be_as_large_as_its_limit(value: float, holds: bool) -> None:
    (gate,) = limits(report({RUN: {"step.data_wait_share": value}}), {"data_wait_share": 0.1})
    assert (gate.fact, gate.value, gate.limit, gate.holds) == ("step.data_wait_share", value, 0.1, holds)


def test_a_fact_that_was_not_measured_does_not_pass() -> None:
    (gate,) = limits(report({}), {"step.data_wait_share": 0.1})
    assert (gate.value, gate.holds, gate.why) == (None, False, "this recording does not hold it")


def test_of_several_loaders_the_training_one_counts_else_the_worst() -> None:
    facts: Facts = {"loader#eval": {"loader.wait_share": 0.9}, "loader#2": {"loader.wait_share": 0.3}}
    name = "loader.wait_share"
    assert limits(report(facts), {name: 0.5})[0].value == 0.9
    assert limits(report({**facts, "loader#train": {name: 0.2}}), {name: 0.5})[0].value == 0.2


@pytest.mark.parametrize(
    ("after", "before", "holds"),
    [
        (timed(110), timed(100), False),  # a plant of 10 %
        (timed(101), timed(100), True),  # the same twice
        (timed(105), timed(100), True),  # just the limit
        (timed(105.2), timed(100), False),
        (timed(50), timed(100), True),
        (timed(110, 0.08), timed(100, 0.08), True),  # within the noise of both
        (timed(110, 0.06), timed(100, 0.06), False),
    ],
)
def test_slower_by_more_than_the_limit_and_the_noise_fails(after: Report, before: Report, holds: bool) -> None:
    gate = regression(after, before, 0.05)
    assert gate.holds is holds
    assert gate.limit == pytest.approx(105)


def test_the_reason_quotes_both_steps() -> None:
    assert regression(timed(110), timed(100), 0.05).why == "110 ms against 100 ms: +10.0%, noise 1.4%"


@pytest.mark.parametrize(
    ("after", "before", "why"),
    [
        (report({}), timed(100), "the recording has no measured step"),
        (timed(100), report({}), "the one before has no measured step"),
        (timed(100, None), timed(100), "too few steps to tell a change from noise: record more"),
        (timed(100), timed(100, None), "too few steps to tell a change from noise: record more"),
    ],
)
def test_what_cannot_be_compared_does_not_pass(after: Report, before: Report, why: str) -> None:
    gate = regression(after, before, 0.05)
    assert (gate.holds, gate.why) == (False, why)


def test_steps_of_other_sizes_are_compared_by_sample() -> None:
    twice = timed(200, samples_per_s=160)  # 16 samples in 100 ms of mean step
    assert regression(twice, timed(100, samples_per_s=80), 0.05).holds
    assert not regression(twice, timed(90, samples_per_s=80), 0.05).holds
    assert "(for 16 samples instead of 8)" in regression(twice, timed(100, samples_per_s=80), 0.05).why
    assert not regression(twice, timed(100), 0.05).holds
