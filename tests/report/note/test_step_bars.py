"""The bars of the step: what a change removes goes out of its own phases first, and the bar is as long as the step."""

from __future__ import annotations

import pytest
import report_cases
from report_builders import change, finding, gain, gain_from, recommendation, report, rule, run, step

from autotune.model.finding import Recommendation
from autotune.report.note.blocks import Rect
from autotune.report.note.step_bars import LEAST_SHARE, phases_after, picture
from autotune.report.stages import stages

NOW = {"data_wait": 40.0, "forward": 60.0}


def won(speedup: float, fact: str = "step.data_wait_share", basis: str = "measured") -> Recommendation:
    each = gain(speedup, 1.0, 3.0, basis)
    of = rule(gain=gain_from(fact))
    return recommendation(1, finding(of, "m", change("a.b", 1, 2, ("t.py", 1)), gain=each), after=each)


def after(*found: Recommendation) -> dict[str, float]:
    made = report(*found, run=run(), step=step(**NOW))
    assert made.step is not None
    return phases_after(stages(made)[-1], NOW, made.step)


def test_what_a_change_acts_on_gets_shorter() -> None:
    assert after(won(1.25)) == pytest.approx({"data_wait": 20.0, "forward": 60.0})


def test_what_its_phases_do_not_have_is_taken_from_the_others() -> None:
    assert after(won(2.0)) == pytest.approx({"data_wait": 0.0, "forward": 50.0})


def test_the_bars_are_as_long_as_the_steps() -> None:
    made = report(won(1.25), run=run(), step=step(**NOW))
    assert made.step is not None
    drawn = [shape for shape in picture(made, made.step).shapes if isinstance(shape, Rect)]
    rows = {top: sum(one.width for one in drawn if one.y == top) for top in {one.y for one in drawn}}
    assert sorted(rows.values()) == pytest.approx([80.0, 100.0])


@pytest.mark.parametrize("name", ["full", "raw_loop", "ended_early", "healthy"])
def test_no_part_is_drawn_that_is_not_there(name: str) -> None:
    made = report_cases.CASES[name]()
    assert made.step is not None
    drawn = picture(made, made.step)
    rects = [shape for shape in drawn.shapes if isinstance(shape, Rect)]
    assert all(one.width >= 100 * LEAST_SHARE for one in rects)
    assert {one.kind for one in rects} <= {phase for phase, ms in made.step.breakdown_ms.items() if ms}


def test_a_bound_is_called_one() -> None:
    made = report(won(1.25, basis="bound"), run=run(), step=step(**NOW))
    assert made.step is not None
    labels = [getattr(shape, "text", "") for shape in picture(made, made.step).shapes]
    assert "+ 1 (training unchanged): at best 80.0 ms (a bound)" in labels
