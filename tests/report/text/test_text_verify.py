from __future__ import annotations

import pytest
from verified_builders import verified

from autotune.model.finding import Gain
from autotune.model.verified import Clock, Estimate, LossComparison, LossVerdict, Memory, Resume, Resumed, Verdict
from autotune.report.text.ab_result import plan
from autotune.report.text.verify import render

FULL = """\
autotune verify: 1 of 1 changes of run r
  loader.num_workers: 0 -> 4 (equivalent)

Faster: 1.50x (1.45 to 1.55, 95 %), 4 pairs, wall-clock time.
Step: 120 ms -> 80.0 ms (medians of 4 runs each)
Losses: identical over 43 steps: bit-identical in every step of all runs
Memory: 800 MiB -> 1.6 GiB (+100%), peak resident, of all processes
Predicted: 1.40x (1.20 to 1.60); measured inside this range, off by 6.7 %
Resume: not tried: save and resume once by hand before a long run
Cost: 8 runs, 2 rehearsals, 52 s; each measured 40 steps after 3 of warm-up; the
  probe ran on both sides
"""


RESUME = "autotune verify --resume train.py"


def text(**fields) -> str:
    return render(verified(resume_command=RESUME, **fields), False, 80)


def test_the_whole_text() -> None:
    assert text() == FULL


def test_what_else_could_have_been_meant_stands_at_the_top() -> None:
    beside = "patch 1 is applied: --patch 1 measures that one"
    assert text(beside=beside).splitlines()[:3] == [
        "autotune verify: 1 of 1 changes of run r",
        f"  {beside}",
        "  loader.num_workers: 0 -> 4 (equivalent)",
    ]


@pytest.mark.parametrize(
    ("verdict", "why", "said"),
    [
        (Verdict.SLOWER, "", "\nSlower: 1.50x"),
        (
            Verdict.NO_DIFFERENCE,
            "it is so",
            "\nNo difference: 1.50x (1.45 to 1.55, 95 %), 4 pairs, wall-clock time; it is so.\n",
        ),
        (
            Verdict.CANNOT_TELL,
            "a reason",
            "\nCannot tell: 1.50x (1.45 to 1.55, 95 %), 4 pairs, wall-clock time; a reason.\n",
        ),
    ],
)
def test_every_verdict_has_its_words(verdict, why: str, said: str) -> None:
    assert said in text(verdict=verdict, why=why)


def test_what_the_interval_holds_for_stands_below_the_step() -> None:
    lines = text(worth="CPU time of the training thread").splitlines()
    assert lines[4:6] == [
        "Step: 120 ms -> 80.0 ms (medians of 4 runs each)",
        "Clock: CPU time of the training thread",
    ]


@pytest.mark.parametrize("verdict", Verdict)
def test_where_pairs_do_not_tell_more_of_them_may(verdict) -> None:
    said = f"Next  {RESUME}   adds pairs to this result\n"
    assert text(verdict=verdict).endswith(said) == (verdict is Verdict.CANNOT_TELL)


@pytest.mark.parametrize("sameness", LossVerdict)
def test_losses_that_were_not_compared_do_not_look_like_a_pass(sameness) -> None:
    said = text(losses=LossComparison(sameness, 0, "a reason"))
    assert ("Losses: not compared: a reason" in said) == (sameness is LossVerdict.NOT_COMPARED)
    assert ("DIFFERENT" in said) == (sameness is LossVerdict.DIFFERENT)


def test_losses_of_too_few_steps_say_what_to_ask_for() -> None:
    said = text(losses=LossComparison(LossVerdict.NOT_COMPARED, 12, "too few", 20))
    assert "Losses: not compared over 12 steps: too few; --loss-steps 20 or more\n" in said


def test_unknown_memory_is_not_zero() -> None:
    assert "Memory: not measured\n" in text(memory=Memory("processes", None, 5))
    assert "peak of the device" in text(memory=Memory("device", 5, 5))


def test_a_missed_prediction_is_said() -> None:
    assert "outside this range, off by 33 %" in text(predicted=Gain(2.0, 1.8, 2.2, "modelled"))
    assert "Predicted" not in text(predicted=None)
    assert "Predicted: 1.40x (1.20 to 1.60); not tested\n" in text(verdict=Verdict.CANNOT_TELL)


def test_a_bound_is_called_one() -> None:
    bound = Gain(1.5, 1.0, 1.5, "bound")
    assert "at most 1.50x; measured inside this range\n" in text(predicted=bound)
    slower = Estimate(0.99, 0.97, 1.01, 0.01)
    assert "at most 1.50x; measured inside this range\n" in text(predicted=bound, estimate=slower)
    assert "at most 1.40x; measured outside this range\n" in text(predicted=Gain(1.4, 1.0, 1.4, "bound"))
    assert "at most 1.50x; not tested\n" in text(predicted=bound, verdict=Verdict.CANNOT_TELL)
    assert "1.50x to at most 2.20x; measured inside this range\n" in text(predicted=Gain(1.8, 1.5, 2.2, "bound"))


@pytest.mark.parametrize(
    ("clock", "said"),
    [
        (Clock.WALL, "4 pairs, wall-clock time."),
        (Clock.CPU, "4 pairs, CPU time of the training thread."),
        (Clock.LOADER, "4 pairs, CPU time of the loader's workers."),
    ],
)
def test_the_verdict_names_the_clock(clock: Clock, said: str) -> None:
    assert f"Faster: 1.50x (1.45 to 1.55, 95 %), {said}\n" in text(clock=clock)


@pytest.mark.parametrize("result", Resumed)
def test_a_resume_that_was_not_tried_does_not_look_like_a_pass(result) -> None:
    said = text(resume=Resume(result, "a reason"))
    assert ("Resume: not tried: a reason" in said) == (result is Resumed.NOT_TRIED)
    assert ("Resume: FAILED: a reason" in said) == (result is Resumed.FAILED)
    assert ("a save and a resume" in said) == (result is not Resumed.NOT_TRIED)


def test_notes_and_scaled_steps_are_said() -> None:
    said = text(notes=("workers stayed 0",), is_per_sample=True)
    assert "Note: workers stayed 0\n" in said
    assert "the speedup is per sample" in " ".join(said.split())


def test_no_line_is_too_wide_and_colour_marks_the_verdict() -> None:
    assert max(map(len, text().splitlines())) <= 80
    assert "\x1b[" in render(verified(), True, 80)
    narrow = render(verified(estimate=Estimate(1.5, 1.45, 1.55, 0.01)), False, 10)
    assert max(map(len, narrow.splitlines())) <= 60


@pytest.mark.parametrize(("price", "cost"), [(None, ""), (36.0, ", $0.50 in all")])
def test_the_plan_says_what_it_will_cost(price, cost: str) -> None:
    said = plan(40.0, 8, 10.0, price)
    assert said == f"8 runs, 4 per side, interleaved (A B B A ...), about 40 s{cost}"
