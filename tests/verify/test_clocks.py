"""Which clock a verification may rest on."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from verify_builders import start

from autotune.model.recording import Event, Fetch, RecordedWindow, Recording
from autotune.model.verified import AFTER, BEFORE, Clock
from autotune.verify import clocks

MS = 1_000_000
EMPTY = dict.fromkeys(("events", "fetches", "batches", "samples", "loaders", "optimizers", "models", "calls"), ())
UNKNOWN = dict.fromkeys(("error", "io", "compile", "kernels"))
WINDOW = RecordedWindow(
    1, 4, 20 * MS, 100 * MS, tuple(20 * MS * at for at in range(1, 6)), "optimizer", "steps",
    cpu_ns=40 * MS, process_cpu_ns=41 * MS, queued_ns=39 * MS, step_cpu_ns=(0, 10 * MS, 19 * MS, 31 * MS, 40 * MS),
)  # fmt: skip
CROWDED = Recording(
    outcome="completed", origin_ns=0, process={}, software={}, frameworks={}, torch_state={}, environment={}, memory={},
    what_ifs=(), side_effects={}, overhead={}, sampler_interval_ns=1, device={"type": "cpu"}, window=WINDOW,
    **UNKNOWN, **EMPTY,
)  # fmt: skip
"""Four steps of 20 ms, half of which the training thread had no CPU."""


def passed(begin: int, end: int) -> float:
    return end - begin


def windowed(recording: Recording = CROWDED, **fields) -> Recording:
    return replace(recording, window=replace(WINDOW, **fields))


def test_the_cpu_time_of_each_step_is_what_other_work_left_alone() -> None:
    assert clocks.cpu_ms(CROWDED) == 10.0
    assert clocks.sleep_share(CROWDED, passed) == pytest.approx(1 / 80)


def test_time_in_which_it_was_stopped_is_no_sleep() -> None:
    stopped = windowed(end_ns=900 * MS, queued_ns=0)
    assert clocks.sleep_share(stopped, lambda begin, end: 41 * MS) == pytest.approx(1 / 41)
    assert clocks.sleep_share(stopped, passed) > 0.9


def test_sleep_and_disks_are_no_wait_for_a_cpu() -> None:
    assert clocks.sleep_share(windowed(queued_ns=20 * MS), passed) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(windowed(queued_ns=None), id="the system does not tell"),
        pytest.param(windowed(cpu_ns=None), id="an older Recording"),
        pytest.param(replace(CROWDED, window=None), id="no window"),
    ],
)
def test_sleep_that_is_not_known_is_not_none(recording: Recording) -> None:
    assert clocks.sleep_share(recording, passed) is None


@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(windowed(process_cpu_ns=60 * MS), id="other threads work, or spin"),
        pytest.param(windowed(process_cpu_ns=None), id="the script ended the window"),
        pytest.param(windowed(cpu_ns=None), id="an older Recording"),
        pytest.param(windowed(step_cpu_ns=()), id="an older Recording has no steps"),
        pytest.param(replace(CROWDED, device={"type": "cuda"}), id="a device works"),
        pytest.param(replace(CROWDED, device=None), id="where it trains is not known"),
        pytest.param(replace(CROWDED, window=None), id="no window"),
        pytest.param(replace(CROWDED, fetches=(Fetch(0, 7, 25 * MS, 1, 1, 0, 0, 8, False),)), id="workers work"),
    ],
)
def test_with_anybody_else_at_work_it_is_the_time_that_passes(recording: Recording) -> None:
    assert clocks.cpu_ms(recording) is None


def test_batches_that_the_training_thread_prepares_are_its_own_work() -> None:
    own = replace(CROWDED, fetches=(Fetch(0, 7, 25 * MS, 1, 1, 0, 0, 8, True),))
    assert clocks.cpu_ms(own) == 10.0


def paced(*, workers: int = 1, cpu: int = 15, queued: int | None = 3, own: int = 4, waits: int = 12) -> Recording:
    """Four steps of 20 ms that wait for workers; what a batch and a step take, in ms."""
    starts = [(20 + 20 * at // workers, at % workers) for at in range(4 * workers)]
    queued_ns = None if queued is None else queued * MS
    fetches = [Fetch(0, worker, at * MS, (cpu + 3) * MS, cpu * MS, 0, 0, 8, False, queued_ns) for at, worker in starts]
    came = [Event("fetch", (21 + 20 * at) * MS, (21 + 20 * at + waits) * MS, 0, 1) for at in range(4)]
    window = replace(WINDOW, cpu_ns=4 * own * MS, queued_ns=4 * (20 - own - waits) * MS)
    return replace(CROWDED, window=window, events=tuple(came), fetches=tuple(fetches))


def test_the_pace_of_the_workers_is_their_cpu_time() -> None:
    assert clocks.loader_ms(paced(), 2) == pytest.approx(15.0)
    assert clocks.loader_ms(paced(workers=2), 4) == pytest.approx(7.5)
    assert clocks.num_workers(paced(workers=2)) == 2


@pytest.mark.parametrize(
    ("recording", "cpus"),
    [
        pytest.param(paced(own=13, waits=5), 2, id="the training thread is the slower one"),
        pytest.param(paced(), 1, id="one CPU holds not both"),
        pytest.param(paced(workers=4), 4, id="workers want more CPUs than there are"),
        pytest.param(paced(), None, id="the CPUs are not known"),
        pytest.param(replace(paced(), device={"type": "cuda"}), 2, id="a device works"),
        pytest.param(CROWDED, 2, id="no workers"),
        pytest.param(replace(paced(), window=None), 2, id="no window"),
    ],
)
def test_where_training_waits_for_anything_else_workers_are_no_clock(recording: Recording, cpus) -> None:
    assert clocks.loader_ms(recording, cpus) is None


@pytest.mark.parametrize(
    ("recording", "asleep"),
    [
        pytest.param(paced(), 0.0, id="nothing but CPUs and batches"),
        pytest.param(paced(queued=0), 3 / 18, id="workers waited for something else"),
        pytest.param(paced(queued=None), None, id="the system does not tell of workers"),
        pytest.param(
            replace(paced(), window=replace(paced().window, queued_ns=0)), 0.2, id="the training thread slept"
        ),
    ],
)
def test_with_workers_their_sleep_counts_and_the_wait_for_them_does_not(recording: Recording, asleep) -> None:
    assert clocks.sleep_share(recording, passed) == (asleep if asleep is None else pytest.approx(asleep, abs=1e-9))


def test_cpus_are_those_of_all_processes_and_of_their_workers() -> None:
    assert clocks.cpus([CROWDED], passed) == pytest.approx(41 / 80)
    assert clocks.cpus([CROWDED, CROWDED], passed) == pytest.approx(82 / 80)
    assert clocks.cpus([paced()], passed) == pytest.approx((41 + 60) / 80)
    assert clocks.cpus([CROWDED, windowed(process_cpu_ns=None)], passed) is None
    assert clocks.cpus([CROWDED], lambda begin, end: 0.0) is None


CPU = {"cpu_ms": 10.0, "asleep_share": 0.0, "step_ms": 20.0}
LOADER = {"loader_ms": 15.0, "workers": 1, "asleep_share": 0.0, "step_ms": 20.0}


@pytest.mark.parametrize(
    ("starts", "chosen"),
    [
        ([start(**CPU), start(AFTER, **CPU)], Clock.CPU),
        ([start(**CPU), start(AFTER)], Clock.WALL),
        ([start(**LOADER), start(AFTER, **LOADER)], Clock.LOADER),
        ([start(**LOADER), start(AFTER, **{**LOADER, "workers": 2})], Clock.WALL),
        ([start(**LOADER), start(AFTER, **CPU)], Clock.WALL),
        ([start(), start(AFTER)], Clock.WALL),
    ],
)
def test_a_clock_is_that_of_all_starts_or_none(starts, chosen: Clock) -> None:
    assert clocks.clock(starts) is chosen


@pytest.mark.parametrize(
    ("shares", "chosen"),
    [
        ((0.0, 0.08, 0.0, 0.0), Clock.CPU),
        ((0.03, 0.03, 0.03, 0.03), Clock.CPU),
        ((0.0, 0.0, 0.0, 0.14), Clock.WALL),
        ((0.0, 0.0, 0.0, None), Clock.WALL),
    ],
)
@pytest.mark.parametrize("side", [BEFORE, AFTER])
def test_a_side_may_sleep_as_little_on_average_as_the_clock_may_miss(shares, chosen: Clock, side: str) -> None:
    other = AFTER if side == BEFORE else BEFORE
    its = [start(side, **{**CPU, "asleep_share": share}) for share in shares]
    assert clocks.clock([*its, *[start(other, **CPU)] * 4]) is chosen


@pytest.mark.parametrize(
    ("chosen", "fields", "mean"),
    [(Clock.WALL, CPU, 20.0), (Clock.CPU, CPU, 10.0), (Clock.LOADER, LOADER, 15.0)],
)
def test_a_clock_has_its_step_time(chosen: Clock, fields, mean: float) -> None:
    assert clocks.mean_ms(chosen, start(**fields)) == pytest.approx(mean)


def test_what_an_interval_is_worth_depends_on_the_clock_and_on_other_work() -> None:
    quiet, crowded = ([start(others_share=share)] * 3 for share in (0.05, 0.5))
    assert clocks.validity(Clock.WALL, quiet, True) == "wall-clock time, both sides interleaved"
    assert clocks.validity(Clock.WALL, [start()], False) == "wall-clock time, one run at a time"
    assert "other work took 50% of the CPUs: the interval is valid for a machine as busy" in clocks.validity(
        Clock.WALL, crowded, True
    )
    assert "other work took 50% of the CPUs: the interval is also valid for an idle machine" in clocks.validity(
        Clock.CPU, crowded, True
    )
    assert clocks.validity(Clock.LOADER, quiet, True) == "CPU time of the loader's workers, for which training waits"
