from __future__ import annotations

import pytest
from report_builders import evidence, report, run, step

from autotune.model.evidence import Value
from autotune.model.report import OUTCOMES
from autotune.report.text import failure


@pytest.mark.parametrize(
    ("name", "num_steps", "expected"),
    [
        ("ended_early", 7, "The script ended by itself after 7 optimizer steps; the window is incomplete."),
        ("raised", 1, "The script failed after 1 optimizer step."),
        ("raised", 0, "The script failed before its first optimizer step."),
        ("raised", None, "The script failed."),
        ("killed_for_memory", 3, "The script was killed after 3 optimizer steps: it reached the memory limit."),
        ("killed", 1200, "The script was killed after 1,200 optimizer steps."),
        ("timed_out", 3, "The time limit was reached after 3 optimizer steps; the window is incomplete."),
        ("no_step", 0, "The script reached no optimizer step in 1 min 14 s."),
        ("interrupted", 3, "Interrupted after 3 optimizer steps."),
    ],
)
def test_what_happened(name: str, num_steps: int | None, expected: str) -> None:
    made = report(run=run(name, num_steps=num_steps), step=None)
    assert failure.lines(made, 80)[0].text == expected


@pytest.mark.parametrize("name", [each for each in OUTCOMES if each != "completed"])
def test_every_outcome_is_said(name: str) -> None:
    assert failure.lines(report(run=run(name), step=None), 80) != []


def test_a_completed_run_says_nothing() -> None:
    assert failure.lines(report(run=run(), step=step(forward=1.0)), 80) == []


def test_the_scripts_own_error() -> None:
    made = report(run=run("raised", error="ValueError: no\nsuch column"), step=None)
    assert failure.lines(made, 80)[-1].text == "  ValueError: no such column"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        (
            {
                "memory.limit_bytes": 2**31,
                "memory.peak_bytes": 2**30,
                "memory.used_share": 0.5,
                "memory.failing_phase": "forward",
            },
            ["  limit  2.0 GiB", "  peak   1.0 GiB (50 % of the limit)", "  in     forward"],
        ),
    ],
)
def test_memory_table(facts: dict[str, Value], expected: list[str]) -> None:
    made = report(run=run("out_of_memory"), step=None, evidence=evidence({"run": facts}))
    assert [line.text for line in failure.lines(made, 80)][1:] == expected


@pytest.mark.parametrize(("ran_out", "has_table"), [(True, True), (False, False)])
def test_a_kill_for_memory_has_the_table_too(ran_out: bool, has_table: bool) -> None:
    made = report(
        run=run("killed"),
        step=None,
        evidence=evidence({"run": {"memory.ran_out": ran_out, "memory.limit_bytes": 2**31}}),
    )
    assert any(line.text.startswith("  limit") for line in failure.lines(made, 80)) is has_table


@pytest.mark.parametrize(("num", "warmup", "expected"), [(9, 5, 9), (None, 5, 35), (None, None, None)])
def test_num_steps(num: int | None, warmup: int | None, expected: int | None) -> None:
    made = report(run=run(num_steps=num, warmup_steps=warmup), step=step(30, forward=1.0))
    assert made.num_steps_run == expected
