from __future__ import annotations

import pytest
from verify_builders import start

from autotune.model.verified import AFTER, BEFORE
from autotune.verify.page_cache import is_uneven

MIB = 1 << 20


def sides(before: list[int | None], after: list[int | None], **fields):
    """Starts of a second (10 steps of 100 ms) that read so many bytes; `fields` are of the second side."""
    old = [start(BEFORE, read_bytes=size, samples=fields and 32.0) for size in before]
    return old + [start(AFTER, read_bytes=size, **fields) for size in after]


@pytest.mark.parametrize(
    ("before", "after", "uneven"),
    [
        ([0, 0, 0], [0, 0, 0], False),
        ([0, 0, 0], [MIB, MIB, MIB], False),
        ([0, 0, 0], [3 * MIB] * 3, True),
        ([3 * MIB] * 3, [0, 0, 0], True),
        ([900 * MIB, 0, 0], [0, 0, 0], False),
        ([400 * MIB] * 3, [410 * MIB] * 3, False),
        ([400 * MIB] * 3, [430 * MIB] * 3, True),
    ],
)
def test_the_sides_have_to_read_the_same_or_next_to_nothing(before, after, uneven: bool) -> None:
    assert is_uneven(sides(before, after)) is uneven


def test_steps_of_twice_as_many_samples_may_read_twice_as_much() -> None:
    assert not is_uneven(sides([100 * MIB] * 2, [200 * MIB] * 2, samples=64.0))
    assert is_uneven(sides([100 * MIB] * 2, [200 * MIB] * 2, samples=32.0))


def test_what_is_unknown_is_not_held_against_it() -> None:
    assert not is_uneven(sides([900 * MIB, None], [0, 0]))
