from __future__ import annotations

import pytest
from build import batches, facts_of, steps
from msgspec.structs import replace

from autotune.derive import lengths


@pytest.mark.parametrize(
    ("rows", "width", "expected"),
    [
        pytest.param([(3, 5), (4, 8)], None, 4 * 8 / (2 * 5 + 2 * 8) - 1, id="as wide as the wider"),
        pytest.param([(3, 5), (4, 8)] * 2, None, 4 * 8 / (2 * 5 + 2 * 8) - 1, id="in pairs"),
        pytest.param([(3, 5), (4, 8), (90, 90)], None, 4 * 8 / (2 * 5 + 2 * 8) - 1, id="the last has no partner"),
        pytest.param([(8, 8), (8,)], None, 0.0, id="batches of like length"),
        pytest.param([(3, 5), (4, 8)], 128, 0.0, id="one width anyway"),
        pytest.param([(3, 5)], None, None, id="one batch"),
    ],
)
def test_what_twice_the_micro_batch_computes_on_top(rows, width, expected):
    found = lengths.doubled_growth_share(batches(rows, width))
    assert found == (expected if expected is None else pytest.approx(expected))


def images(*sizes):
    return tuple(
        replace(each, width=None, tokens=None, lengths=None, num_samples=4, shapes=((4, *size), (4,)))
        for each, size in zip(batches([(1,)] * len(sizes)), sizes, strict=True)
    )


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([(3, 32, 32), (3, 32, 32)], 0.0, id="images of one size"),
        pytest.param([(3, 32, 16), (3, 16, 32)], 1.0, id="the larger of both sides"),
        pytest.param([(3, 32, 32), (3, 32)], None, id="cannot be joined"),
    ],
)
def test_without_tokens_the_shapes_tell(sizes, expected):
    assert lengths.doubled_growth_share(images(*sizes)) == expected


def test_samples_that_were_not_counted_say_nothing():
    unknown = [replace(each, num_samples=None, shapes=()) for each in images((3,), (3,))]
    assert lengths.doubled_growth_share(unknown) is None


def test_the_growth_is_a_fact_of_the_train_loader():
    facts = facts_of("loader#train", script=steps(3), batches=batches([(3, 5), (4, 8)]))
    assert facts["loader.doubled_growth_share"] == pytest.approx(32 / 26 - 1)
    assert "loader.doubled_growth_share" not in facts_of("loader#train", script=steps(3), batches=batches([(3, 5)]))
