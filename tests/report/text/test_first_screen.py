"""The first screen: the numbers of now and at most three actions, what needs no decision first."""

from __future__ import annotations

import pytest
import report_cases
from report_builders import change, evidence, finding, gain, recommendation, report, rule, run, step

from autotune.model.finding import Recommendation
from autotune.model.rule import Effect
from autotune.report import render
from autotune.report.text import first_screen

SCREEN = 24
"""Lines of a small terminal."""


def won(number: int, *, effect: Effect = Effect.EXACT, speedup: float = 1.5, place: int = 7) -> Recommendation:
    each = gain(speedup, 1.2, 1.6)
    edit = change(f"a.{number}", 1, 2, ("/home/user/project/t.py", place), effect=effect)
    return recommendation(number, finding(rule(), "m", edit, gain=each), after=each)


def actions(*found: Recommendation) -> list[str]:
    made = report(*found, run=run(planned_steps=1000), step=step(forward=1000.0))
    return [line.text for line in first_screen.actions(made, 80)]


def test_an_action_is_its_edit_with_what_it_saves() -> None:
    (line,) = actions(won(1))
    assert line.startswith("1 t.py:7 a.1: 1 -> 2")
    assert line.endswith("saves 2 min 47 s to 6 min 15 s")


def test_three_at_most_and_how_many_more() -> None:
    lines = actions(*(won(number) for number in range(1, 6)))
    assert [line[:2] for line in lines] == ["1 ", "2 ", "3 ", "  "]
    assert lines[-1] == "  and 2 more below"


def test_decisions_come_later_and_are_marked() -> None:
    lines = actions(won(1), won(2, effect=Effect.ALTERING))
    assert "(your decision)" not in lines[0]
    assert "(your decision)" in lines[1]


def test_what_saves_nothing_is_left_to_the_details() -> None:
    assert actions(won(1, speedup=1.0)) == []
    assert actions() == []


def test_what_has_no_edit_is_named_by_its_rule() -> None:
    by_hand = recommendation(
        1, finding(rule("SY006", "gc-in-the-loop"), "m", advice=("Delete it.",), gain=gain(2, 2, 2))
    )
    assert actions(by_hand)[0].startswith("1 gc in the loop (your decision)")


@pytest.mark.parametrize(
    ("places", "expected"),
    [(1, ""), (2, "; also t.py:2"), (3, "; also t.py:2, t.py:3"), (5, "; also t.py:2, t.py:3 and 2 more")],
)
def test_further_edits_are_named_by_their_places(places: int, expected: str) -> None:
    edits = [change(f"a.{number}", 1, 2, ("/home/user/project/t.py", number)) for number in range(1, places + 1)]
    (line,) = actions(recommendation(1, finding(rule(), "m", *edits)))
    assert line.split("   ")[0] == f"1 t.py:1 a.1: 1 -> 2{expected}"


@pytest.mark.parametrize("at", [None, ("/home/user/project/t.py", 1)])
def test_a_further_edit_without_a_place_of_its_own_is_named_by_its_setting(at: tuple[str, int] | None) -> None:
    edits = (change("a.1", 1, 2, ("/home/user/project/t.py", 1)), change("a.2", 1, 2, at))
    (line,) = actions(recommendation(1, finding(rule(), "m", *edits)))
    assert line.split("   ")[0] == "1 t.py:1 a.1: 1 -> 2; also a.2"


def test_the_numbers_of_now() -> None:
    known = evidence({"run": {"step.num_micro_batches": 1.0, "device.busy_share": 0.5}})
    made = report(run=run(), step=step(forward=100.0), evidence=known)
    assert [line.text for line in first_screen.numbers(made, 80)] == [
        "Now: 10.00 it/s, 9.2 samples/s, device busy 50 %, with compute alone 20.00 it/s"
    ]
    assert first_screen.numbers(report(run=run("no_step"), step=None), 80) == []


@pytest.mark.parametrize(("noise", "is_said"), [(0.1, True), (0.099, False), (None, False)])
def test_a_badly_known_step_is_said_beside_its_figure(noise: float | None, is_said: bool) -> None:
    known = evidence({"run": {"step.num_micro_batches": 1.0, "step.noise_share": noise}})
    lines = first_screen.numbers(report(run=run(), step=step(forward=100.0), evidence=known), 200)
    assert ("+-10 % (better on an idle machine" in lines[0].text) is is_said


@pytest.mark.parametrize("name", report_cases.CASES)
def test_verdict_numbers_and_actions_are_on_the_first_screen(name: str) -> None:
    lines = render("diagnose", report_cases.CASES[name](), "text").splitlines()
    assert next(at for at, line in enumerate(lines) if line.startswith("Machine: ")) < SCREEN
