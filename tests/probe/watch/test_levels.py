"""When the time of a step has moved: not by one slow step, not by chance."""

from __future__ import annotations

import itertools
import random

import pytest

from autotune.probe.watch import levels
from autotune.probe.watch.levels import Level

MS = 1e6


def at_steps(values):
    return [(50 + 20 * n, each) for n, each in enumerate(values)]


def block(step, durations_ms):
    return levels.level(step, [each * MS for each in durations_ms])


def test_one_slow_step_in_ten_does_not_move_the_level_and_a_wait_at_every_fourth_does():
    plain = block(20, [10.0] * 20)
    assert block(40, [10.0] * 18 + [900.0, 500.0]) == Level(40, plain.mean, 0.0)
    assert block(40, [10.0, 10.0, 10.0, 30.0] * 5).mean > 1.3 * plain.mean


def test_two_blocks_in_a_row_have_to_be_a_tenth_longer():
    first = block(20, [10.0] * 20)
    longer, same = block(40, [11.2] * 20), block(60, [10.5] * 20)
    assert levels.has_moved(first, [longer, longer])
    assert not levels.has_moved(first, [longer])
    assert not levels.has_moved(first, [longer, same])
    assert not levels.has_moved(first, [same, same])
    assert levels.has_moved(first, [block(40, [8.5] * 20)] * 2)
    assert not levels.has_moved(first, [block(40, [8.5] * 20), longer])


def test_steps_that_vary_by_themselves_have_not_moved():
    """Batches of any length: the error of a block is larger than a tenth."""
    draw = random.Random(0)
    blocks = [block(20 * n, [draw.expovariate(1 / 10) for _ in range(20)]) for n in range(1, 40)]
    moved = [levels.has_moved(blocks[0], pair) for pair in itertools.pairwise(blocks[1:])]
    assert sum(moved) <= 1
    assert any(levels.differs(blocks[0], each) for each in [block(20, [40.0 + n for n in range(20)])])


def test_a_rise_is_steady_where_a_line_fits_better_than_a_jump():
    noise = [0.3, -0.2, 0.1, -0.4, 0.2, -0.1] * 5
    assert levels.is_steady(at_steps([10 + 0.2 * n + noise[n] for n in range(30)]))
    assert levels.is_steady(at_steps([10 - 0.2 * n + noise[n] for n in range(30)]))
    assert not levels.is_steady(at_steps([10.0 + noise[n] for n in range(15)] + [20.0 + noise[n] for n in range(15)]))
    assert not levels.is_steady(at_steps([12.0, 12.0, 17.0, 24.0, 24.3, 24.1, 24.4, 24.2, 24.3]))
    assert not levels.is_steady(at_steps([10.0] * 30))
    assert not levels.is_steady(at_steps([10.0, 11.0, 12.0]))


def test_what_fills_up_and_stays_has_no_steady_rise():
    assert not levels.is_steady(at_steps([1000, 1200, 1350, 1450, 1500, 1520, 1520, 1520, 1520, 1520]))


def test_a_jump_is_found_though_one_value_lies_apart():
    assert levels.jump([10.0, 14.0, 10.0, 10.0, 15.0, 15.0, 15.0, 15.0, 15.0, 15.0]) == 4
    assert levels.jump([10.0, 15.0, 15.0]) == 1


def test_a_line_is_one_over_steps_and_not_over_values():
    """Nine values of ten come from the last tenth of the run."""
    steps = [*range(0, 9000, 1000), *range(9000, 10_000, 10)]
    assert levels.is_steady([(step, 10.0 + step / 1000) for step in steps])


def test_rows_of_blocks_stay_equally_far_apart_and_the_newest_stay_as_they_are():
    blocks = levels.Blocks()
    for n in range(1, 2001):
        blocks.add(Level(20 * n, float(n), 0.2))
        assert len(blocks.rows) < levels.MOST_ROWS
    apart = {later.step - row.step for row, later in itertools.pairwise(blocks.rows)}
    assert apart == {20 * 16}
    assert blocks.rows[0] == Level(320, 8.5, pytest.approx(0.2 / 4))
    assert 1980 <= len(blocks.rows) * 16 <= 2000
    assert [each.step for each in blocks.newest] == [20 * n for n in range(2001 - levels.MOST_NEWEST, 2001)]


def test_samples_stay_equally_far_apart_though_windows_lie_between():
    samples, step = levels.Samples(), 50
    assert samples.all() == []
    for n in range(10_000):
        samples.add(step, n)
        step += 20 if n % 500 else 240
    kept = [at for at, _ in samples.kept]
    apart = [later - before for before, later in itertools.pairwise(kept)]
    assert kept[0] == 50 and 120 <= len(kept) <= levels.MOST_ROWS
    assert max(apart) <= 1.6 * min(apart)
    assert samples.all()[-1] == samples.newest == (step - 20, 9999)
