from __future__ import annotations

import pytest

from autotune.probe.what_ifs import other_load

FIRST = "cpu  100 0 50 1000 7 3 2 1 40 0\n"


@pytest.fixture
def stat(tmp_path, monkeypatch):
    """stat(text): what /proc/stat says; ours are 1.0 CPU seconds, at 10 s."""
    monkeypatch.setattr(other_load, "STAT", str(tmp_path / "stat"))
    monkeypatch.setattr(other_load.os, "sysconf", lambda _: 100)
    monkeypatch.setattr(other_load.os, "times", lambda: (0.5, 0.25, 0.25, 0.0, 99.0))
    monkeypatch.setattr(other_load.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(other_load.clock, "now", lambda: 10 * 10**9)

    def write(text):
        (tmp_path / "stat").write_text(text, encoding="ascii")

    return write


def test_busy_are_neither_idle_nor_waiting_for_a_disk_and_guests_count_once(stat):
    stat(FIRST)
    assert other_load.reading() == (10.0, pytest.approx(1.56), 1.0)


def test_only_cpus_that_this_process_may_run_on_count(stat):
    """Neighbours that keep other CPUs busy take nothing from a process that may not run there."""
    stat(FIRST + "cpu0 60 0 20 400 7 3 2 1 40 0\ncpu1 4 0 0 600 0 0 0 0 0 0\ncpu2 900 0 0 0 0 0 0 0 0 0\nintr 5\n")
    assert other_load.reading() == (10.0, pytest.approx(0.86 + 0.04), 1.0)


def test_what_is_not_ours_is_of_others(stat):
    stat(FIRST)
    # 0.56 of the machine's 1.56 s came before, and 0.4 of our 1.0 s.
    assert other_load.cpus((8.0, 0.56, 0.6)) == pytest.approx((1.0 - 0.4) / 2)
    assert other_load.cpus((8.0, 1.5, 0.6)) == 0.0, "ticks are coarse: ours may look like more than all"


@pytest.mark.parametrize("text", ["", "cpu 1 2\n", "cpu a b c d e f\n"])
def test_a_file_that_says_something_else_says_nothing(stat, text):
    stat(text)
    assert other_load.reading() is None
    assert other_load.cpus((8.0, 0.0, 0.0)) is None


def test_without_proc_nothing_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(other_load, "STAT", str(tmp_path / "none"))
    assert other_load.reading() is None
    assert other_load.cpus(None) is None
