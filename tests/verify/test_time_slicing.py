"""Process groups that take turns: real ones, for tenths of a second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from itertools import pairwise

import psutil
import pytest

from autotune.model.verified import TimeSlicing
from autotune.verify.time_slicing import PausedGroup, alternate

COUNTS = "import sys, time\nwhile True:\n    print(time.monotonic(), flush=True)\n    time.sleep(0.005)"


TURNS = TimeSlicing(0.2, 0.1)


def counting(seconds: float, made: list):
    """A work that lets a process tell the time for so long; `made` gets the times and the PausedGroup."""

    def work(held: PausedGroup) -> float:
        with subprocess.Popen(
            [sys.executable, "-c", COUNTS], stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as child:
            try:
                with held.group(child.pid):
                    end = time.monotonic() + seconds
                    while time.monotonic() < end:
                        held.check(0)
                        time.sleep(0.01)
            finally:
                os.killpg(child.pid, signal.SIGKILL)
                made.append(([float(line) for line in child.stdout.read().split()], held))
        return seconds

    return work


def test_only_one_goes_on_at_a_time_and_its_own_time_says_so() -> None:
    made: list = []
    assert alternate([counting(1.5, made), counting(1.5, made)], TURNS) == [1.5, 1.5]
    (first, one), (second, other) = made
    last = min(first[-1], second[-1]) - 0.15
    for times, held in made:
        gaps = [b - a for a, b in pairwise(times) if b < last]
        assert sum(gap > 0.05 for gap in gaps) >= 3
        assert held.own_s(times[0]) < held.own_s(times[-1]) < 0.8 * (times[-1] - times[0])
        assert 0.5 * held.own_s(times[-1]) < held.least_s(times[-1]) <= held.own_s(times[-1])
    # 20 ms: a signal and the clock of its sender are not one.
    began = max(first[0], second[0]) + TURNS.together_s
    both = sum(any(abs(a - b) < 0.02 for b in second) for a in first if began < a < last)
    assert both < 0.5 * sum(began < a < last for a in first)
    assert one.own_s(last) + other.own_s(last) <= last - min(first[0], second[0]) + 0.5


def test_own_time_is_what_it_had_before_a_moment() -> None:
    held = PausedGroup()
    held._went, held._stopped = [10.0, 20.0], [11.0]
    assert [held.own_s(at) for at in (9.0, 10.0, 10.5, 11.0, 15.0, 20.0, 20.5)] == [0, 0, 0.5, 1, 1, 1, 1.5]
    held._stopped.append(22.0)
    assert held.own_s(float("inf")) == 3.0


def test_what_passed_while_it_was_told_to_stop_or_to_go_on_may_not_be_its_own() -> None:
    held = PausedGroup()
    held._went, held._stopped = [10.0, 20.0], [12.0, 21.0]
    held._surely_went, held._surely_stopped = [10.5, 20.1], [11.0, 20.9]
    assert [held.least_s(at) for at in (10.4, 10.7, 15.0, 20.5)] == pytest.approx([0, 0.2, 0.5, 0.9])
    assert (held.least_s(99.0), held.own_s(99.0)) == (pytest.approx(1.3), 3.0)


def test_one_that_fails_ends_the_others_at_once() -> None:
    made: list = []

    def fails(held: PausedGroup) -> None:
        raise ValueError("x")

    began = time.monotonic()
    with pytest.raises(ValueError, match="x"):
        alternate([counting(30.0, made), fails], TURNS)
    assert time.monotonic() - began < 5
    assert len(made) == 1


def test_steps_end_the_time_in_which_all_go_on() -> None:
    made: list = []

    def steps(held: PausedGroup) -> None:
        work = counting(1.0, made)
        held.check(1)
        work(held)

    began = time.monotonic()
    alternate([steps, counting(1.0, made)], TimeSlicing(30.0, 0.05))
    assert all(held.in_turns_since() - began < 5 for _, held in made)


def test_who_makes_steps_waits_until_the_others_do() -> None:
    made: dict[bool, list] = {True: [], False: []}
    caught_up = time.monotonic() + 2.0

    def work(is_ahead: bool):
        def run(held: PausedGroup) -> None:
            held.has_stepped = lambda: is_ahead or time.monotonic() > caught_up
            counting(4.0, made[is_ahead])(held)

        return run

    alternate([work(True), work(False)], TimeSlicing(0.0, 0.05))
    ahead, behind = (made[is_ahead][0][0] for is_ahead in (True, False))
    early = [sum(at < caught_up - 0.1 for at in times) for times in (ahead, behind)]
    assert early[0] <= 10 < early[1]
    assert sum(at > caught_up for at in ahead) > 10


def test_it_goes_on_on_one_cpu_and_may_use_all_of_its_own() -> None:
    own = os.sched_getaffinity(0)
    held = PausedGroup()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        with held.group(child.pid):
            held.stop()
            assert held.turn(0.01, place=1)
            assert os.sched_getaffinity(child.pid) == own
        child.kill()


def test_nobody_stays_stopped_when_this_process_is_killed() -> None:
    """As by the OOM killer, while the group is stopped."""
    own = (
        "import os, signal, subprocess\n"
        "from autotune.verify.time_slicing import PausedGroup\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "with PausedGroup().group(child.pid):\n"
        "    os.killpg(child.pid, signal.SIGSTOP)\n"
        "    print(child.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", own], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + 10
    while psutil.pid_exists(int(done.stdout)) and psutil.Process(int(done.stdout)).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_interrupt_ends_all_of_them() -> None:
    made: list = []
    threading.Timer(0.6, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        alternate([counting(30.0, made), counting(30.0, made)], TURNS)
    assert len(made) == 2


def test_a_group_that_is_gone_is_no_error() -> None:
    held = PausedGroup()
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as child:
        child.wait()
        with held.group(child.pid):
            assert held.turn(0.01)
    assert not held.turn(0.01)
    held.give_up()
    with pytest.raises(CancelledError):
        held.check(0)
