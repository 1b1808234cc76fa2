from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from autotune.probe.what_ifs.batch_buffer import MOST, BatchBuffer


def row(index: int, num_bytes: int = 8, **more) -> dict:
    return {"num_bytes": num_bytes, "num_samples": 2, "tokens": index, **more}


def filled(count: int) -> BatchBuffer:
    kept = BatchBuffer()
    for index in range(count):
        kept.offer({"x": torch.tensor([index])}, row(index))
    kept.start()
    return kept


def drawn(kept: BatchBuffer, count: int) -> list[int]:
    return [int(kept.next()["x"]) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 5, 15, 16, 100, 1000])
def test_what_is_kept_is_evenly_spread_and_bounded(count):
    kept = filled(count)
    indices = sorted(drawn(kept, len(kept)))
    assert len(kept) < MOST
    assert indices[0] == 0
    gaps = {after - before for before, after in pairwise(indices)}
    assert len(gaps) <= 1
    assert count - indices[-1] <= max(gaps, default=1)


def test_every_kept_batch_is_handed_out_before_one_comes_again():
    kept = filled(1000)
    assert len(set(drawn(kept, len(kept)))) == len(kept)


def test_means_are_of_what_this_phase_was_handed():
    kept = filled(3)
    drawn(kept, 3)
    assert kept.means() == {"samples": 2.0, "tokens": 1.0}
    kept.start()
    assert kept.means() == {"samples": None, "tokens": None}


def test_one_unknown_size_makes_the_mean_unknown():
    kept = BatchBuffer()
    kept.offer(torch.ones(1), row(4))
    kept.offer(torch.ones(1), {"num_bytes": 4, "num_samples": 2})
    drawn_rows = [kept.next(), kept.next()]
    assert len(drawn_rows) == 2
    assert kept.means() == {"samples": 2.0, "tokens": None}


def test_the_narrowest_kept_batch_is_compared_with_the_widest_that_was_seen():
    kept = BatchBuffer()
    assert kept.narrowest() == 0.0
    kept.offer(torch.ones(1), row(40))
    kept.offer(torch.ones(1), row(80))
    kept.offer(torch.ones(1), row(160, num_bytes=1 << 40))  # too large to keep
    assert (len(kept), kept.narrowest()) == (2, 0.25)


def test_without_tokens_the_bytes_of_the_batches_are_compared():
    kept = BatchBuffer()
    kept.offer(torch.ones(1), {"num_bytes": 10, "num_samples": 2})
    kept.offer(torch.ones(1), row(7, num_bytes=20))
    assert kept.narrowest() == 0.5


def test_a_batch_that_is_changed_by_the_script_is_kept_as_it_was():
    kept = BatchBuffer()
    batch = {"x": torch.tensor([1]), "labels": torch.tensor([2])}
    kept.offer(batch, row(0))
    batch.pop("labels")
    first = kept.next()
    first["x"] += 5
    assert int(kept.next()["x"]) == 1
    assert "labels" in first


def test_narrow_batches_are_counted_as_what_they_are():
    kept = BatchBuffer()
    kept.offer({"ids": torch.ones(2, 7)}, row(14, width=7))
    assert kept.next(narrow=True)["ids"].shape == (2, 3)
    assert kept.means() == {"samples": 2.0, "tokens": 6.0}


@pytest.mark.parametrize(("useful", "padded"), [((14, 14), False), ((14, 9), True), ((9, None), False), ((), False)])
def test_whether_the_batches_are_padded(useful, padded):
    kept = BatchBuffer()
    for tokens in useful:
        kept.offer(torch.ones(2, 7), row(14, useful_tokens=tokens))
    assert kept.are_padded() is padded


def test_large_batches_are_not_kept_beyond_the_limit():
    kept = BatchBuffer()
    for index in range(5):
        kept.offer(torch.ones(1), row(index, num_bytes=100 << 20))
    assert len(kept) == 2
