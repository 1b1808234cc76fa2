from __future__ import annotations

import pytest

from autotune.probe.fit.allocator import MIB, Allocator, peak_reserved


def test_a_block_is_whole_512_bytes_and_a_small_segment_2_mib():
    one = Allocator()
    one.allocate(1, 1)
    one.allocate(2, 513)
    assert (one.allocated, one.reserved) == (512 + 1024, 2 * MIB)


@pytest.mark.parametrize(
    ("size", "reserved"),
    [(MIB, 2 * MIB), (MIB + 1, 20 * MIB), (10 * MIB - 512, 20 * MIB), (10 * MIB, 10 * MIB), (11 * MIB, 12 * MIB)],
)
def test_segments_have_the_sizes_of_torch(size, reserved):
    one = Allocator()
    one.allocate(1, size)
    assert one.reserved == reserved


def test_what_is_freed_is_given_out_again():
    one = Allocator()
    for _ in range(3):
        one.allocate(1, 30 * MIB)
        one.free(1)
    assert (one.allocated, one.reserved, one.peak_reserved) == (0, 30 * MIB, 30 * MIB)


def test_neighbours_that_are_free_become_one_block():
    one = Allocator()
    for key in range(4):
        one.allocate(key, 5 * MIB)  # 20 MiB: one segment
    for key in (0, 2, 1):
        one.free(key)
    one.allocate(9, 9 * MIB)
    assert one.reserved == 20 * MIB


def test_a_hole_between_two_live_blocks_is_fragmentation():
    one = Allocator()
    for key in range(4):
        one.allocate(key, 5 * MIB)
    one.free(0)
    one.free(2)
    one.allocate(9, 9 * MIB)
    assert (one.allocated, one.reserved) == (19 * MIB, 40 * MIB)


def test_a_large_block_is_not_split_for_a_rest_of_a_mib():
    one = Allocator()
    one.allocate(1, 30 * MIB)
    one.free(1)
    one.allocate(2, 29 * MIB)
    assert one.allocated == 30 * MIB


def test_a_step_takes_its_own_peak_on_top_of_what_is_live():
    live = [(1, 20 * MIB)]
    step = [(2, 30 * MIB), (3, 12 * MIB), (2, 0), (3, 0)]
    assert peak_reserved(live, step) == 62 * MIB


def test_what_was_live_before_may_go_in_the_step():
    assert peak_reserved([(1, 20 * MIB)], [(1, 0), (2, 20 * MIB)]) == 20 * MIB
