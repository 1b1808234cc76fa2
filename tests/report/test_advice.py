from __future__ import annotations

import pytest
from report_builders import change, finding, gain, recommendation, report, rule, run, step

from autotune.model.evidence import Location
from autotune.model.finding import Change, Recommendation
from autotune.model.rule import Effect
from autotune.report import advice


def shown(*recommendations: Recommendation, has_step: bool = True) -> list[str]:
    made = report(*recommendations, run=run(planned_steps=100), step=step(forward=1000.0) if has_step else None)
    return [line.text for line in (*advice.unchanged_lines(made, 80), *advice.decision_lines(made, 80))]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (change("loader.num_workers", 0, 2, ("/home/user/project/a.py", 23), spelling="num_workers"),
         "  fix    a.py:23 num_workers: 0 -> 2"),
        (change("loader.num_workers", None, 2, ("a.py", 23)),
         "  fix    a.py:23 loader.num_workers: unset -> 2"),
        (change("model.attention", "eager", "sdpa", ("c.yaml", 3)),
         "  fix    c.yaml:3 model.attention: eager -> sdpa"),
        (change("model.attention", "eager", "sdpa", ("t.py", 3)),
         '  fix    t.py:3 model.attention: "eager" -> "sdpa"'),
        (change("optimizer.fused", False, True),
         "  fix    optimizer.fused: False -> True (where it is set was not found)"),
    ],
)  # fmt: skip
def test_a_change_in_the_files_own_words(edit: Change, expected: str) -> None:
    assert expected in shown(recommendation(1, finding(rule(), "m", edit)))


@pytest.mark.parametrize(
    ("effect", "note", "expected"),
    [
        (Effect.EQUIVALENT, "", None),
        (Effect.EQUIVALENT, "other draws", "  note   other draws"),
        (Effect.ALTERING, "order changes", "  price  order changes"),
        (Effect.ALTERING, "", "  price  changes what is learned: compare the losses before you keep it"),
    ],
)
def test_the_price_of_a_change(effect: Effect, note: str, expected: str | None) -> None:
    lines = shown(recommendation(1, finding(rule(), "m", change("a.b", 1, 2, effect=effect, note=note))))
    assert [line for line in lines if line[2:7] in ("note ", "price")] == ([expected] if expected else [])


def test_what_rarer_saves_cost_is_a_price_although_training_is_unchanged() -> None:
    rarer = change("checkpoint.interval_steps", 5, 500, effect=Effect.EXACT, note="a crash loses more")
    lines = shown(recommendation(1, finding(rule("CK001"), "m", rarer)))
    assert lines[0] == "YOUR DECISION: changes training, or costs something"
    assert lines[-1] == "  price  a crash loses more"


def test_advice_by_hand_has_the_place_of_its_cause() -> None:
    found = finding(rule(), "m", advice=("Delete it.",), location=Location("/home/user/project/train.py", 57))
    assert shown(recommendation(1, found))[-2:] == ["  at     train.py:57", "  fix    Delete it."]


def test_advice_beside_an_edit_is_an_alternative() -> None:
    found = finding(rule(), "m", change("a.b", 1, 2), advice=("Stream it.",), location=Location("t.py", 1))
    assert shown(recommendation(1, found))[-1] == "  or     Stream it."
    assert not any(line.startswith("  at") for line in shown(recommendation(1, found)))


def test_findings_that_share_a_change_are_one() -> None:
    edit = change("a.b", 1, 2)
    first = finding(rule("DL001", "one-thing"), "first message")
    second = finding(rule("DL002", "another-thing"), "second message", edit)
    assert shown(recommendation(1, first, second))[1:4] == [
        f"1 DL001 one thing{' ' * 45}gain not estimated",
        "  seen   first message",
        "  also   DL002 another thing: second message",
    ]


def test_a_failed_run_has_no_times() -> None:
    assert shown(recommendation(1, finding(rule(), "m", change("a.b", 1, 2))), has_step=False)[1] == (
        "1 DL001 batches in the main process"
    )


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (None, "saves 50 s"),
        (gain(2.0, 2.0, 2.0), "saves 50 s"),
        (gain(1.25, 1.2, 1.3), "saves 20 s after 1-2"),
    ],
)
def test_what_is_left_after_the_earlier_numbers(after: object, expected: str) -> None:
    won = gain(2.0, 2.0, 2.0)
    edits = [finding(rule(), "m", change("a.b", 1, 2), gain=won) for _ in range(3)]
    lines = shown(
        recommendation(1, edits[0]),
        recommendation(2, edits[1]),
        recommendation(3, edits[2], after=after),  # type: ignore[arg-type]
    )
    assert next(line for line in lines if line.startswith("3 ")).endswith(f"  {expected}")
