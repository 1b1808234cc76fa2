from __future__ import annotations

import pytest
from engine_builders import rule

from autotune.engine.examples import evidence_of, failures
from autotune.model.evidence import RUN
from autotune.model.rule import Example, Remark

FACTS = {"loader.wait_share": 0.72}


@pytest.mark.parametrize(
    ("example", "failure"),
    [
        (Example("fires", FACTS), None),
        (Example("fires", FACTS, message="72 % of the step waits"), None),
        (Example("silent", {"loader.wait_share": 0.01}), None),
        (Example("skipped", {}), None),
        (
            Example("silent", FACTS, why="busy"),
            "DL001, example 1 (busy): expected silent, got fires: 72 % of the step waits",
        ),
        (Example("fires", {}), "DL001, example 1: expected fires, got skipped: needs loader.wait_share"),
        (Example("skipped", {"loader.wait_share": 0.0}), "DL001, example 1: expected skipped, got silent"),
        (
            Example("fires", FACTS, message="it waits"),
            'DL001, example 1: says "72 % of the step waits" instead of "it waits"',
        ),
    ],
)
def test_failures(example: Example, failure: str | None) -> None:
    assert list(failures(rule(examples=(example,)))) == ([] if failure is None else [failure])


RIGHT = Remark("loader.wait_share < limits.min_wait", "loader (waits {loader.wait_share})")


@pytest.mark.parametrize(
    ("example", "failure"),
    [
        (Example("silent", {"loader.wait_share": 0.01}, right="loader (waits 1 %)"), None),
        (Example("silent", {"loader.wait_share": 0.01}), 'right is "loader (waits 1 %)" instead of ""'),
        (Example("fires", FACTS), None),
        (Example("fires", FACTS, right="loader"), 'right is "" instead of "loader"'),
        (Example("skipped", {}), None),
    ],
)
def test_an_example_states_the_remark_that_is_made_of_it(example: Example, failure: str | None) -> None:
    found = list(failures(rule(examples=(example,), right=(RIGHT,))))
    assert found == ([] if failure is None else [f"DL001, example 1: {failure}"])


def test_facts_of_an_example_belong_to_the_run_or_the_subject() -> None:
    evidence = evidence_of({"step.mean_ms": 1.0, "loader.num_workers": 2, "loader.wait_ms": 3.0}, "loader#x")
    assert evidence.facts == {RUN: {"step.mean_ms": 1.0}, "loader#x": {"loader.wait_ms": 3.0}}
    assert [*evidence.settings] == [("loader#x", "loader.num_workers")]
