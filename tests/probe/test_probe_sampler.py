"""What a sample says of the user's functions on a stack."""

from __future__ import annotations

import sys

import pytest

from autotune.probe import call_sites, logging_functions, sampler

SCRIPT = """
import functools

class Diary:
    def keep(self, look):
        return self.spread(look)
    def spread(self, look):
        return look()
    @staticmethod
    @functools.cache
    def note(look, file=None):
        found = look()
        if file is None:
            return found
        with open(file) as opened:
            opened.write("a line")
        return found
    def seldom(self, look, file=None):
        if file is not None:
            file.write("a line")
        for row in ():
            file.write(row)
        return look()

def train(look, name):
    return getattr(Diary(), name)(look)
"""


@pytest.mark.parametrize(
    ("name", "path", "writing"),
    [
        ("keep", "train > Diary.keep > Diary.spread", ""),
        ("note", "train > Diary.note", "Diary.note"),
        ("seldom", "train > Diary.seldom", ""),
    ],
)
def test_the_users_functions_and_those_that_always_write(monkeypatch, tmp_path, name, path, writing):
    file = tmp_path / "train.py"
    file.write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setattr(call_sites, "is_user", lambda asked: asked == str(file))
    made = {}
    exec(compile(SCRIPT, str(file), "exec"), made)
    assert made["train"](lambda: sampler.path(call_sites.outwards(sys._getframe())), name) == (path, writing)


def test_without_source_nothing_is_known(monkeypatch, tmp_path):
    made = {}
    exec(compile("def note(file):\n    file.write('')\n", str(tmp_path / "gone.py"), "exec"), made)
    assert logging_functions.always_writes(made["note"].__code__) is False


def test_what_passed_since_the_last_look_belongs_to_what_is_seen(monkeypatch):
    wall, cpu = iter([0, 20, 45, 60]), iter([0, 50, 55, 54])
    monkeypatch.setattr(sampler.clock, "now", lambda: next(wall))
    monkeypatch.setattr(sampler.clock, "process_cpu", lambda: next(cpu))
    use = sampler.SampledUse()
    for key, own, step in (("a", 10, 3), ("b", 11, 4), ("a", 12, 5)):
        use.note((key,), use.passed(own), step)
    assert use.row(("a",)) == {"wall_ns": 35, "cpu_ns": 40, "step_sum": 8}
    assert use.row(("b",)) == {"wall_ns": 25, "cpu_ns": 4, "step_sum": 4}


def test_only_the_most_frequent_places_are_kept_in_order():
    counts = {("other", "f", "g", "u", line, "w"): line for line in range(1, 301)}
    rows = sampler.rows_of(counts)
    assert [row["count"] for row in rows] == list(range(300, 100, -1))
    assert [key[4] for key in sampler.ranked(counts)] == [row["user_line"] for row in rows]


@pytest.mark.parametrize(("cost_s", "expected"), [(0.0, 0.02), (0.0001, 0.02), (0.0003, 0.05), (0.01, 0.2)])
def test_dear_samples_come_less_often(cost_s, expected):
    assert sampler.pause(cost_s) == pytest.approx(expected)
