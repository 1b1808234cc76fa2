from __future__ import annotations

import pytest
from msgspec.structs import replace
from report_builders import change, evidence, finding, gain, passed, recommendation, report, rule, run, skipped, step

from autotune.model.report import Frame, HotFunction, HotLine, LineTable, Rank, RepeatedCall, Report, Step
from autotune.report.text import verdict


def said(made: Report) -> str:
    return " ".join(line.text for line in verdict.lines(made, 80))


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ({"data_wait": 60.0, "forward": 40.0}, "Input-bound: 60 % of each step is spent waiting for data."),
        (
            {"data_wait": 40.0, "forward": 25.0, "backward": 35.0},
            "Compute-bound: 60 % of each step is forward and backward.",
        ),
        (
            {"forward": 30.0, "recompute": 30.0, "backward": 39.0, "optimizer": 1.0},
            "Compute-bound: 100 % of each step is forward, recompute, backward and optimizer.",
        ),
        ({"checkpoint": 60.0, "forward": 40.0}, "Checkpoint-bound: 60 % of each step is spent on saves."),
        ({"evaluation": 60.0, "forward": 40.0}, "Evaluation-bound: 60 % of each step is spent on evaluation."),
        ({"h2d": 60.0, "forward": 40.0}, "Copies to the device take the largest part of each step: 60 %."),
        ({"logging": 60.0, "forward": 40.0}, "Logging takes the largest part of each step: 60 %."),
        ({"other": 60.0, "forward": 40.0}, "The largest part of each step, 60 %, is outside the known phases."),
    ],
)
def test_what_bounds_the_step(phases: dict[str, float], expected: str) -> None:
    made = report(run=run(), step=step(**phases), passed=passed("DL001"))  # type: ignore[arg-type]
    assert said(made) == f"Nothing to report in what was judged (1 rule on dataloader). {expected}"


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        (("DL001", "DL002", "PR001"), "3 rules on dataloader and precision"),
        (("PR001", "DL001", "DL002", "CP001"), "4 rules on dataloader, precision and cpu"),
        (("PR001", "DL001", "DL002", "CP001", "ME001", "SY001"), "6 rules on dataloader, precision, cpu and 2 more"),
    ],
)
def test_where_nothing_fires_it_is_said_what_was_judged(judged: tuple[str, ...], expected: str) -> None:
    made = report(run=run(), step=step(forward=1.0), passed=passed(*judged))
    assert said(made).startswith(f"Nothing to report in what was judged ({expected}).")


@pytest.mark.parametrize(("busy", "expected"), [(0.3, "Host-bound: the device is busy 30 %"), (0.5, "Compute-bound")])
def test_an_idle_device_is_not_compute(busy: float, expected: str) -> None:
    made = report(
        recommendation(1, finding(rule(), "m")),
        run=run(),
        step=step(forward=1.0),
        evidence=evidence({"run": {"device.busy_share": busy}}),
    )
    assert said(made).startswith(expected)


def test_the_frame_of_unknown_time() -> None:
    filled: Step = replace(step(other=6.0, forward=4.0), other=(Frame("a.py", 3, "f", 0.1), Frame("b.py", 5, "g", 0.4)))
    made = report(run=run(), step=filled, passed=passed("DL001"))
    assert said(made).endswith("60 %, is outside the known phases; 40 % is g in b.py:5.")


def test_where_nothing_fires_the_most_expensive_line_is_named() -> None:
    line = HotLine(file="train.py", line=58, end_line=58, function="forward", share=0.62, phase_ms={"forward": 6.2})
    table = LineTable(lines=(line,), modules=(), known_share=1.0, ops=None, op_us=None)
    made = report(run=run(), step=replace(step(forward=10.0), lines=table), passed=passed("DL001"))
    assert said(made).endswith("The most expensive line, train.py:58 (forward), takes 62 % of each step.")


def test_and_the_line_that_leads_to_it_several_times() -> None:
    by = RepeatedCall("/p/model.py", 75, 4.0)
    line = HotLine(file="model.py", line=42, end_line=42, function="f", share=0.62, phase_ms={}, repeated_by=by)
    table = LineTable(lines=(line,), modules=(), known_share=1.0, ops=None, op_us=None)
    made = report(run=run(), step=replace(step(forward=10.0), lines=table), passed=passed("DL001"))
    assert said(made).endswith("takes 62 % of each step; /p/model.py:75 leads to it 4 times for each batch.")


def test_a_function_that_costs_more_than_any_line_comes_before_the_line() -> None:
    line = HotLine(file="train.py", line=58, end_line=58, function="forward", share=0.32, phase_ms={"forward": 3.2})
    function = HotFunction("train.py", 108, "match", 0.43)
    table = LineTable(lines=(line,), modules=(), known_share=1.0, ops=None, op_us=None, function=function)
    made = report(run=run(), step=replace(step(forward=10.0), lines=table), passed=passed("DL001"))
    assert said(made).endswith(
        "The most expensive function beside the model, match (train.py:108), takes 43 % of each step; "
        "the most expensive line, train.py:58 (forward), takes 32 % of each step."
    )


def test_a_question_alone_is_said_first_and_is_no_recommendation() -> None:
    asked = finding(replace(rule("HS001", "line-worth-a-look"), asks_about="line.share"), "30 % is spent in f (a.py:3)")
    made = report(recommendation(1, asked), run=run(), step=step(forward=10.0))
    text = said(made)
    assert text.startswith("No rule fired, but one line is worth a look: 30 % is spent in f (a.py:3).")
    assert "First:" not in text


def test_beside_a_claim_the_claim_is_first() -> None:
    asked = finding(replace(rule("HS001", "line-worth-a-look"), asks_about="line.share"), "q")
    found = finding(rule("CP004", "loop-optimizer"), "m")
    made = report(recommendation(1, asked), recommendation(2, found), run=run(), step=step(forward=10.0))
    assert said(made).endswith("First: loop optimizer (CP004).")


def test_the_first_recommendation_and_its_basis() -> None:
    found = finding(rule("CP004", "loop-optimizer"), "m", gain=gain(1.5, 1.4, 1.6))
    made = report(recommendation(1, found), run=run(), step=step(forward=1.0))
    assert said(made).endswith("First: loop optimizer (CP004), 1.50x (1.40-1.60) measured.")


def test_the_largest_gain_has_its_number_where_the_list_begins_with_another() -> None:
    free = finding(rule("DL001", "no-workers"), "m", change("loader.num_workers", 0, 2), gain=gain(1.2, 1.1, 1.3))
    large = finding(rule("DL006", "repeated-work"), "m", gain=gain(3.0, 2.9, 3.1))
    made = report(recommendation(1, free), recommendation(2, large), run=run(), step=step(forward=1.0))
    made = replace(made, evaluation=replace(made.evaluation, findings=(large, free)))
    assert said(made).endswith("Largest gain: 2, repeated work (DL006), 3.00x (2.90-3.10) measured.")


def test_a_first_recommendation_without_gain_claims_none() -> None:
    made = report(recommendation(1, finding(rule(), "m")), run=run(), step=step(forward=1.0))
    assert said(made).endswith("First: batches in the main process (DL001).")


def test_nothing_decided_is_not_health() -> None:
    made = report(
        run=run(),
        step=step(forward=1.0),
        skipped=(skipped("DL001", "loader.wait_ms"), skipped("DL002", "loader.wait_ms")),
    )
    assert said(made).startswith("Nothing to report, but nothing could be decided: 2 rules lack a fact.")


def test_no_step_no_verdict() -> None:
    assert verdict.lines(report(run=run("no_step"), step=None), 80) == []


@pytest.mark.parametrize(
    ("ms", "said_of_it"), [(22.0, " (averaging gradients over processes: 22 % of the step)"), (4.0, ""), (None, "")]
)
def test_averaging_of_gradients_is_no_computing(ms: float | None, said_of_it: str) -> None:
    ranks = tuple(Rank(number, 100.0, 100.0, "whole", {}, wait_ms=0.0, averaging_ms=ms) for number in range(2))
    made = replace(report(run=run(), step=step(forward=30.0, backward=70.0), passed=passed("DL001")), ranks=ranks)
    assert said(made).endswith(f"100 % of each step is forward and backward{said_of_it}.")
