"""The mutation test itself: it finds what weak examples miss, and is silent about good ones."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from mutants import conditions, shifted, survivors

from autotune.model.evidence import Value
from autotune.model.rule import Example, Limit, Remark, Rule, Severity, Static


def rule(*examples: tuple[str, float, bool]) -> Rule:
    return Rule(
        id="DL001",
        name="slow-batches",
        summary="",
        since="0.1",
        status="stable",
        severity=Severity.HIGH,
        confidence="high",
        subject="loader",
        when="loader.is_train and loader.wait_share >= limits.min_wait",
        message="",
        why="",
        references=(),
        limits={"min_wait": Limit(0.5, "share", "half"), "unused": Limit(1, "share", "not in the condition")},
        fixes=(),
        gain=None,
        examples=tuple(
            Example(expect, {"loader.wait_share": share, "loader.is_train": is_train})
            for expect, share, is_train in examples
        ),
        file="",
    )


ON, BESIDE, EVALUATION = ("fires", 0.5, True), ("silent", 0.49, True), ("silent", 0.5, False)


@pytest.mark.parametrize(
    ("examples", "alive"),
    [
        ((ON, BESIDE, EVALUATION), []),
        (
            (("fires", 0.9, True), BESIDE, EVALUATION),
            ["`loader.wait_share > limits.min_wait`", "limits.min_wait = 0.55"],
        ),
        ((ON, ("silent", 0.1, True), EVALUATION), ["limits.min_wait = 0.45"]),
        (
            (ON, ("silent", 0.49, False)),
            ["`loader.is_train or loader.wait_share >= limits.min_wait`", "limits.min_wait = 0.45"],
        ),
        ((ON,), ["`loader.is_train or loader.wait_share >= limits.min_wait`", "limits.min_wait = 0.45"]),
    ],
    ids=["good", "none on the limit", "none just beside it", "beside it, but silent anyway", "only one"],
)
def test_survivors(examples, alive: list[str]) -> None:
    assert survivors(rule(*examples)) == [
        f"DL001: mutant {what} survives: add an example that it would get wrong" for what in alive
    ]


@pytest.mark.parametrize(
    ("beside", "alive"),
    [(2, []), (9, ["[static] `loader.num_workers <= limits.few`", "[static] limits.few = 3"])],
    ids=["on it", "far off"],
)
def test_the_static_part_needs_its_own_examples(beside: int, alive: list[str]) -> None:
    static = Static("loader.num_workers < limits.few", "", Severity.LOW, "low", ())
    examples = [Example("fires", {"loader.num_workers": 1}, static=True)]
    examples += [Example("silent", {"loader.num_workers": beside}, static=True)]
    tested = rule(ON, BESIDE, EVALUATION)
    limits = {**tested.limits, "few": Limit(2, "workers", "a guess")}
    tested = replace(tested, static=static, limits=limits, examples=(*tested.examples, *examples))
    left = [f"DL001: mutant {what} survives: add an example that it would get wrong" for what in alive]
    assert [line for line in survivors(tested) if "limits.few" in line] == left


@pytest.mark.parametrize(
    ("examples", "alive"),
    [
        ([(0.24, "little"), (0.25, "")], []),
        (
            [(0.2, "little"), (0.3, "")],
            ["right 1 `loader.wait_share <= limits.small`", "limits.small = 0.225", "limits.small = 0.275"],
        ),
    ],
    ids=["on the limit and beside it", "far off"],
)
def test_a_remark_needs_its_own_examples(examples: list[tuple[float, str]], alive: list[str]) -> None:
    tested = rule(ON, BESIDE, EVALUATION)
    more = tuple(
        Example("silent", {"loader.wait_share": share, "loader.is_train": False}, right=right)
        for share, right in examples
    )
    limits = {**tested.limits, "small": Limit(0.25, "share", "a guess")}
    remarks = (Remark("loader.wait_share < limits.small", "little"),)
    tested = replace(tested, right=remarks, limits=limits, examples=(*tested.examples, *more))
    left = [f"DL001: mutant {what} survives: add an example that it would get wrong" for what in alive]
    assert survivors(tested) == left


def test_each_comparison_and_each_connective_is_changed_once() -> None:
    when = 'loader.is_train or (0 < loader.len_cv <= 1 and model.type in ["a"]) or run.world_size == 0'
    assert sorted(changed for changed, _ in conditions(when)) == [
        "0 < loader.len_cv < 1",
        "0 < loader.len_cv <= 1 or model.type in ['a']",
        "0 <= loader.len_cv <= 1",
        "loader.is_train and (0 < loader.len_cv <= 1 and model.type in ['a']) and (run.world_siz...",
        "model.type not in ['a']",
        "run.world_size != 0",
    ]


def test_surely_is_left_out_once_at_each_place() -> None:
    when = "not surely(loader.is_train) and max(loader.len_cv, 1) > 0"
    assert [changed for what, changed in conditions(when) if what == "loader.is_train"] == [
        "not loader.is_train and max(loader.len_cv, 1) > 0"
    ]


@pytest.mark.parametrize(
    ("value", "neighbours"),
    [
        (2, [1, 3]),
        (100, [90, 110]),
        (0.5, [0.45, 0.55]),
        ((4, 41, 2), [(4, 41, 1), (4, 41, 3)]),
        ((5, 0), [(4,), (5, 1)]),
        ("cuda", []),
        (True, []),
    ],
)
def test_shifted(value: Value, neighbours: list[Value]) -> None:
    assert list(shifted(value)) == (pytest.approx(neighbours) if isinstance(value, float) else neighbours)
