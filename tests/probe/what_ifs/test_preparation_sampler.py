from __future__ import annotations

import json
import sys
import time

import pytest
from torch.utils.data import DataLoader, Dataset

from autotune.probe.what_ifs import preparation_sampler

RECORD = json.dumps({"readings": [index / 7 for index in range(20_000)]})


class Records(Dataset):
    """Each item parses JSON, which holds the interpreter lock, or waits."""

    def __init__(self, prepare, count=64):
        self.prepare, self.count = prepare, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.prepare()
        return index


def parse():
    json.loads(RECORD)


def wait():
    time.sleep(0.002)


def share(rows, text):
    return sum(row["count"] for row in rows if text in row["leaf_file"]) / sum(row["count"] for row in rows)


def test_what_holds_the_interpreter_lock_is_seen():
    rows = preparation_sampler.samples(DataLoader(Records(parse), batch_size=4))
    assert share(rows, "json/decoder.py") > 0.5
    assert {row["phase"] for row in rows} == {"fetch"}
    assert [row["count"] for row in rows] == sorted((row["count"] for row in rows), reverse=True)


def test_a_call_that_waits_belongs_to_the_function_that_makes_it():
    (most, *_) = preparation_sampler.samples(DataLoader(Records(wait), batch_size=4))
    assert (most["leaf_function"], most["user_function"]) == ("wait", "wait")
    passed_ns = most["count"] * preparation_sampler.INTERVAL_NS
    assert passed_ns >= 0.8 * preparation_sampler.LEAST_BATCHES * 4 * 2_000_000


def test_it_ends_with_the_epoch():
    rows = preparation_sampler.samples(DataLoader(Records(wait, count=8), batch_size=4))
    assert 0 < sum(row["count"] for row in rows) * preparation_sampler.INTERVAL_NS < preparation_sampler.ENOUGH_NS


def test_the_profile_function_is_taken_away(monkeypatch):
    def fail():
        raise OSError("no such file")

    data = Records(wait)
    loader = DataLoader(data, batch_size=4)
    preparation_sampler.samples(loader)
    assert sys.getprofile() is None
    monkeypatch.setattr(preparation_sampler, "_take", lambda iterator: fail())
    with pytest.raises(OSError, match="no such file"):
        preparation_sampler.samples(loader)
    assert sys.getprofile() is None


def test_a_profiler_of_the_script_is_left_alone():
    def mine(*_):
        pass

    sys.setprofile(mine)
    try:
        assert preparation_sampler.samples(DataLoader(Records(wait), batch_size=4)) == []
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
