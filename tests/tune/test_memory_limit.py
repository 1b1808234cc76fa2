from __future__ import annotations

import pytest

from autotune.engine.evidence import join
from autotune.model.evidence import RUN, Evidence, Fact, Setting
from autotune.model.tuned import Axis, Space
from autotune.tune.memory_limit import unknown_peak

LARGER, MORE_WORKERS, SMALLER = (2, 0), (1, 1), (0, 0)
SPACE = Space(
    (
        Axis("batch", "loader#train", tuple({"loader.batch_size": size} for size in (4, 8, 16)), 1),
        Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in (0, 2)), 0),
    )
)


def evidence(max_length=None, **facts) -> Evidence:
    cut = [] if max_length is None else [Setting("data.max_length", RUN, max_length, "observed")]
    return join([Fact(f"loader.{name}", "loader#train", value) for name, value in facts.items()], cut)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"num_shapes": 9, "width": 412}, "the longest that was seen has 412 tokens, and longer samples may come"),
        ({"num_shapes": 9, "width": 412, "max_length": 512}, "412 tokens, of the 512 that a sample may have"),
        ({"num_shapes": 9}, "batches are not all alike, and larger ones may come"),
        ({}, "larger ones may come"),
    ],
)
def test_a_larger_batch_than_was_measured_may_come(facts, expected: str) -> None:
    assert expected in unknown_peak(evidence(**facts), SPACE, LARGER)


@pytest.mark.parametrize(
    "facts",
    [
        {"num_shapes": 1, "width": 412},
        {"num_shapes": 2, "is_static_padding": True, "width": 512},
        {"num_shapes": 9, "width": 512, "max_length": 512},
    ],
    ids=["one shape", "padded to one width", "cut there"],
)
def test_the_largest_batch_was_measured(facts) -> None:
    assert unknown_peak(evidence(**facts), SPACE, LARGER) == ""


@pytest.mark.parametrize("candidate", [SPACE.current, SMALLER, MORE_WORKERS])
def test_what_takes_no_more_memory_than_the_users_own_holds_what_that_held(candidate) -> None:
    assert unknown_peak(evidence(num_shapes=9, width=412), SPACE, candidate) == ""
