"""Arithmetic on readings: shares of the time by thread, the rate of a progress line by two readings."""

from __future__ import annotations

import pytest

from autotune.attach.facts import facts
from autotune.attach.progress_file import ProgressReading
from autotune.attach.sampling import Moment, Samples
from autotune.attach.target import Target
from autotune.machine.other_process import ProcessAbout, ProcessReading, ThreadReading
from autotune.model.outlook import ProgressLine

ABOUT = ProcessAbout(
    pid=7,
    uid=0,
    gid=0,
    start_ticks=1,
    exe="/usr/bin/python3.11",
    argv=("python", "train.py"),
    cwd="/",
    environ={"OMP_NUM_THREADS": "2"},
    python=(3, 11),
    is_python=True,
    has_torch=True,
    has_cuda=False,
    outputs=(None, None),
    cpus=frozenset({0, 1}),
    namespace_pids=(7,),
    same_files=True,
    tracer=0,
)


def process(*threads, pid=7, parent=1, **changes):
    fields = {"major_faults": 0, "rss_bytes": 100, "swap_bytes": 0, "read_bytes": None, "write_bytes": None} | changes
    fields = {"cpu_s": sum(one.cpu_s for one in threads), "reaped_cpu_s": 0.0} | fields
    return ProcessReading(pid, parent, "python", "S", 1, threads, **fields)


def thread(cpu_s, tid=7, state="S", queued_s=0.0, sleeps_in="futex_do_wait"):
    return ThreadReading(tid, "python", state, cpu_s, queued_s, sleeps_in)


def samples(*moments, **changes):
    fields = {
        "quota": None,
        "host_cpus": 8,
        "cores": 4,
        "throttled_share": None,
        "oom_kills": None,
        "memory_limit_bytes": None,
        "memory_left_bytes": None,
        "gpus": (),
        "why_no_gpu": "none",
        "why_no_progress": "",
    }
    return Samples(tuple(moments), **fields | changes)


def target(*children):
    return Target(ABOUT, children, ())


def test_shares_are_of_the_time_between_the_first_look_and_the_last():
    asleep = thread(0.5, state="R", sleeps_in="")
    found = facts(
        target(),
        samples(
            Moment(0.0, (process(thread(0.0), thread(1.0, tid=8)),), 10.0, None),
            Moment(2.0, (process(asleep, thread(1.2, tid=8)),), 12.0, None),
            Moment(4.0, (process(thread(1.0, queued_s=2.0), thread(1.4, tid=8)),), 14.0, None),
        ),
    )
    assert found.main.cpu_share == pytest.approx(0.25)
    assert found.main.queued_share == pytest.approx(0.5)
    assert found.main.waits_for_work_share == pytest.approx(2 / 3)
    (other,) = found.threads
    assert other.cpu_share == pytest.approx(0.1)
    assert (found.cpus.own, found.cpus.children) == (pytest.approx(0.35), 0.0)
    assert found.cpus.of_others == pytest.approx(1.0 - 0.35)
    assert (found.cpus.allowed, found.cpus.limited_by) == (2.0, "affinity")


def test_a_worker_that_began_meanwhile_counts_and_what_is_hidden_stays_unknown():
    hidden = thread(0.0, sleeps_in="")
    parent = process(hidden)
    worker = process(thread(0.2, tid=9, state="R", sleeps_in=""), pid=9, parent=7)
    later = process(thread(1.1, tid=9, state="R", sleeps_in=""), pid=9, parent=7)
    found = facts(
        target((worker, "worker")),
        samples(Moment(0.0, (parent, worker), None, None), Moment(1.0, (parent, later), None, None)),
    )
    (one,) = found.workers
    assert (one.pid, one.cpus) == (9, pytest.approx(0.9))
    assert found.main.waits_for_work_share is None
    assert found.cpus.of_others is None
    assert found.storage.read_bytes_per_s is None


def test_workers_of_an_epoch_that_ended_count_once_and_their_cpu_time_is_not_lost():
    """The first epoch's worker uses a CPU for a second, the next one's for two; what has ended, its parent counts."""

    def worker(pid, cpu_s):
        return process(thread(cpu_s, tid=pid, state="R", sleeps_in=""), pid=pid, parent=7)

    def parent(reaped=0.0):
        return process(thread(0.0), reaped_cpu_s=reaped)

    old, new = worker(9, 0.5), worker(10, 0.0)
    found = facts(
        target((old, "worker"), (new, "worker")),
        samples(
            Moment(0.0, (parent(), old), None, None),
            Moment(1.0, (parent(), worker(9, 1.5)), None, None),
            Moment(2.0, (parent(1.5), new), None, None),
            Moment(3.0, (parent(1.5), worker(10, 1.0)), None, None),
            Moment(4.0, (parent(1.5), worker(10, 2.0)), None, None),
        ),
    )
    (one,) = found.workers
    assert (one.pid, one.cpus) == (10, pytest.approx(1.0))
    assert (found.cpus.own, found.cpus.children) == (0.0, pytest.approx(3.0 / 4.0))


def progressed(*steps, total=100, step_s=9.0, epoch=None):
    """The progress after looks of a second each."""
    rows = [
        Moment(
            float(at), (process(thread(0.0)),), None, ProgressReading("a.log", ProgressLine(step, total, step_s, epoch))
        )
        for at, step in enumerate(steps)
    ]
    return facts(target(), samples(*rows)).progress


def test_the_rate_is_that_between_the_moments_at_which_the_line_moved():
    found = progressed(10, 10, 12, 12, 14, 14)
    assert (found.step, found.step_s, found.is_own_rate) == (14, pytest.approx(1.0), False)
    assert found.left_s == pytest.approx(86.0)


@pytest.mark.parametrize("steps", [(10, 10, 10), (10, 11, 11), (90, 95, 1, 6)], ids=["still", "once", "a new epoch"])
def test_a_line_that_does_not_move_twice_or_begins_again_has_its_own_rate(steps):
    found = progressed(*steps)
    assert (found.step, found.step_s, found.is_own_rate) == (steps[-1], 9.0, True)


def test_what_is_left_is_not_known_where_the_bar_may_be_of_one_epoch():
    assert progressed(10, 10, 12, 12, 14, 14, epoch=2).left_s is None
    assert progressed(10, 10, 12, 12, 14, 14, epoch=2).is_of_epoch
    again = progressed(90, 95, 1, 6)
    assert (again.left_s, again.is_of_epoch) == (None, True)


def test_a_pasted_line_counts_where_no_file_has_one():
    rows = [Moment(float(at), (process(thread(0.0)),), None, None) for at in range(2)]
    found = facts(target(), samples(*rows), ProgressLine(5, 10, 2.0)).progress
    assert (found.source, found.left_s) == ("--at", 10.0)
    assert facts(target(), samples(*rows)).progress is None
