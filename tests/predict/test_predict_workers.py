from __future__ import annotations

import math

import pytest

from autotune.model.evidence import RUN, Evidence
from autotune.model.rule import GainSpec
from autotune.predict import predict
from autotune.predict.workers import pipeline

LOADER = "loader#train"
RUN_FACTS = {
    "step.mean_ms": 50.0,
    "step.noise_share": 0.02,
    "replay.step_ms": 22.0,
    "machine.cpus_per_rank": 4.0,
    "machine.load": 0.0,
    "run.num_threads": 1,
    "device.type": "cpu",
}
OF_LOADER = {
    "loader.num_workers": 0,
    "loader.workers_needed": 2,
    "loader.wait_share": 0.6,
    "loader.wait_ms": 30.0,
    "loader.batches_per_step": 1.0,
    "loader.num_batches": 1000,
    "loader.serial_ms": 30.0,
    "loader.one_worker_ms": 30.0,
    "loader.two_workers_ms": 15.0,
    "loader.handover_ms": 0.0,
    "loader.start_ms_per_worker": 0.0,
    "loader.end_ms_per_worker": 0.0,
    "loader.batch_cpu_share": 0.0,
    "loader.batch_cv": 0.0,
}


def evidence(changed):
    everything = {**RUN_FACTS, **OF_LOADER, **changed}
    known = {name: value for name, value in everything.items() if value is not None}
    of_loader = {name: value for name, value in known.items() if name.startswith("loader.")}
    return Evidence({RUN: {n: v for n, v in known.items() if n not in of_loader}, LOADER: of_loader}, {})


def gain(arguments=None, **changed):
    named = {name.replace("__", "."): value for name, value in changed.items()}
    return predict(GainSpec("workers", arguments or {}), evidence(named), LOADER)


@pytest.mark.parametrize(
    ("arguments", "changed", "speedup"),
    [
        pytest.param({"workers": "1"}, {}, 50 / 30, id="one worker is the slower of the two"),
        pytest.param({}, {}, 50 / 20, id="the two that are needed keep up"),
        pytest.param({"workers": "0"}, {}, 1.0, id="as it is"),
        pytest.param(
            {}, {"loader__batch_cpu_share": 1.0, "machine__cpus_per_rank": 1.0}, 1.0, id="one core takes turns"
        ),
        pytest.param(
            {},
            {"step__mean_ms": 100.0, "replay__step_ms": 40.0, "loader__batches_per_step": 2.0},
            50 / 20,
            id="two batches a step",
        ),
        pytest.param({"workers": "2"}, {"loader__handover_ms": 5.0}, 50 / 25, id="handing over is not free"),
        pytest.param(
            {"workers": "0"},
            {"loader__num_workers": 2, "step__mean_ms": 25.0, "loader__wait_share": 0.2},
            20 / 50,
            id="recorded with workers: none would lose",
        ),
    ],
)
def test_the_speedup(arguments, changed, speedup):
    found = gain(arguments or {"workers": "2"}, **changed)
    assert found.speedup == pytest.approx(speedup, rel=0.02)
    assert found.low < found.speedup <= found.high
    assert found.basis == "modelled"


def test_an_epochs_workers_start_once_an_epoch_or_once_a_run():
    once = {"loader__start_ms_per_worker": 100.0, "loader__end_ms_per_worker": 30.0}
    starting = {**once, "loader__num_batches": 20, "run__num_planned_epochs": 10.0}
    short = gain(**starting)
    lasting = gain({"persistent": "true"}, **starting)
    assert short.speedup == pytest.approx(50 / (20 + (260 + 30) / 20), rel=0.01)
    assert lasting.speedup == pytest.approx(50 / (20 + (260 + 30) / 200), rel=0.01)
    assert gain(**starting | {"loader__persistent_workers": True}) == lasting


def test_workers_that_would_lose_are_said_to():
    tiny = {"loader__start_ms_per_worker": 100.0, "loader__num_batches": 2}
    assert gain(**tiny).speedup < 1
    assert gain({"workers": "2"}, **tiny).speedup < 1


def test_training_alone_is_never_beaten():
    noisy = gain({"workers": "2"}, step__noise_share=0.3)
    assert noisy.high == pytest.approx(50 / 20 * 1.3)


def test_the_interval_is_wider_where_cores_are_busy_and_wider_still_where_they_are_shared():
    def width(**changed):
        found = gain({"workers": "1"}, **changed)
        return 1 - found.low / found.speedup

    busy = {"loader__batch_cpu_share": 1.0}
    assert width() < width(**busy) < width(**busy, machine__load=4.0)


def test_the_interval_holds_how_far_the_model_is_off_what_the_run_has():
    def width(mean_ms):
        # Training takes 20 ms, which two workers keep up with; what else the step took nobody knows.
        changed = {"loader__num_workers": 2, "step__mean_ms": mean_ms, "loader__wait_share": 1 - 20 / mean_ms}
        found = gain({"workers": "0"}, **changed)
        return 1 - found.low / found.speedup

    assert width(20.0) < 0.1 < width(25.0) < math.log(2) < width(40.0)


@pytest.mark.parametrize(
    ("changed", "cpu_ms", "cores"),
    [
        pytest.param({"loader.batch_cpu_share": 0.5}, 15.0, 4.0, id="its own CPU time"),
        pytest.param({"loader.batch_cpu_share": 0.5, "machine.load": 7.0}, 15.0, 1.0, id="two workers bound it"),
        pytest.param(
            {"loader.batch_cpu_share": 0.5, "machine.load": 7.0, "loader.two_workers_ms": 30.0},
            30.0,
            1.0,
            id="the rest was no I/O: others had the core",
        ),
        pytest.param(
            {"loader.batch_cpu_share": 0.25, "machine.load": 7.0, "loader.two_workers_ms": None},
            7.5 * 1.25,
            1.0,
            id="who asks for half of its share waits for a quarter",
        ),
        pytest.param({"loader.batch_cpu_share": 1.0, "loader.one_worker_ms": 50.0}, 50.0, 4.0, id="slower in a worker"),
        pytest.param({"loader.batch_cpu_share": 1.0, "loader.one_worker_ms": 20.0}, 25.0, 4.0, id="never faster"),
    ],
)
def test_what_of_a_batch_needs_a_core(changed, cpu_ms, cores):
    costs = pipeline(evidence(changed), LOADER, persistent=False)
    assert (costs.cpu_ms, costs.cores) == pytest.approx((cpu_ms, cores))


@pytest.mark.parametrize(
    ("changed", "waited_for", "there"),
    [
        pytest.param({}, 20.0, 20.0, id="a replay that is slower is not believed"),
        pytest.param({"replay.step_ms": 16.0}, 20.0, 16.0, id="who slept begins cold"),
        pytest.param({"loader.num_workers": 1, "replay.step_ms": 16.0}, 20.0, 16.0, id="cores enough for a worker"),
        pytest.param({"loader.num_workers": 4, "replay.step_ms": 16.0}, 20.0, 16.0, id="workers that wait take none"),
        pytest.param(
            {"loader.num_workers": 4, "loader.batch_cpu_share": 0.9, "replay.step_ms": 16.0},
            16.0,
            16.0,
            id="workers took cores",
        ),
        pytest.param({"loader.num_workers": 1, "replay.step_ms": None}, 20.0, 20.0, id="no replay"),
    ],
)
def test_what_training_takes(changed, waited_for, there):
    costs = pipeline(evidence(changed), LOADER, persistent=False)
    assert (costs.compute_ms, costs.warm_ms) == pytest.approx((waited_for, there))


def test_a_step_that_only_waits_says_nothing_of_training():
    assert gain({"workers": "2"}, loader__wait_share=1.0) is None


@pytest.mark.parametrize("missing", ["loader__serial_ms", "loader__handover_ms", "machine__cpus_per_rank"])
def test_without_the_loader_alone_it_is_at_most_the_ceiling(missing):
    replayed = {"replay__step_ms": 25.0, "replay__low_ms": 24.0, "replay__high_ms": 26.0}
    found = gain(**replayed, **{missing: None})
    assert (found.speedup, found.low, found.basis) == (pytest.approx(2.0), 1.0, "bound")


@pytest.mark.parametrize(
    ("batch_ms", "most"),
    [
        pytest.param(80.0, 50 / 40, id="two workers bring a batch in 40 ms at best"),
        pytest.param(40.0, 2.0, id="they keep up"),
        pytest.param(120.0, 1.0, id="no faster than today"),
        pytest.param(None, 2.0, id="not known"),
    ],
)
def test_without_the_loader_alone_workers_are_no_faster_than_their_pace(batch_ms, most):
    replayed = {"replay__step_ms": 25.0, "replay__low_ms": 24.0, "replay__high_ms": 26.0}
    found = gain({"workers": "2"}, **replayed, loader__serial_ms=None, loader__batch_ms=batch_ms)
    assert (found.speedup, found.high, found.basis) == (pytest.approx(most), pytest.approx(most), "bound")


@pytest.mark.parametrize(
    ("by", "others", "load", "left"),
    [
        pytest.param("cgroup", 10.0, 99.0, 8.0, id="a quota: neighbours have CPUs enough of their own"),
        pytest.param("cgroup", 59.0, 99.0, 5.0, id="a quota: neighbours leave five"),
        pytest.param("cgroup", 64.0, 99.0, 1.0, id="a quota: neighbours are everywhere"),
        pytest.param("affinity", 3.0, 99.0, 5.0, id="a mask: what was seen is on these CPUs"),
        pytest.param("affinity", None, 10.0, 8.0, id="the load is of the whole host"),
        pytest.param("cgroup", None, 59.0, 5.0, id="the load with a quota"),
    ],
)
def test_neighbours_of_a_container_first_take_what_it_may_not_use(by, others, load, left):
    limited = {"machine.cpus_per_rank": 8.0, "machine.cpu_quota": 8.0, "machine.host_cpus": 64}
    found = evidence({**limited, "machine.cpu_limited_by": by, "machine.other_cpus": others, "machine.load": load})
    assert pipeline(found, LOADER, persistent=False).cores == left


def test_a_host_whose_cpus_are_all_allowed_shares_each_of_them():
    whole = {"machine.cpu_quota": 4.0, "machine.host_cpus": 4, "machine.cpu_limited_by": "host"}
    assert pipeline(evidence({**whole, "machine.other_cpus": 1.5}), LOADER, persistent=False).cores == 2.5


def test_a_machine_that_was_slower_while_the_loader_was_tried_is_no_loss():
    twice = {"loader__serial_ms": 60.0, "loader__one_worker_ms": 60.0, "loader__two_workers_ms": 30.0}
    assert gain({"workers": "1"}, **twice).speedup == pytest.approx(gain({"workers": "1"}).speedup)


@pytest.mark.parametrize(("cost", "most"), [(0.2, 1 / 0.8), (None, 1 / 0.8)])
def test_workers_give_back_no_more_than_batches_cost(cost, most):
    """A replay that happened to be faster than the window is no gain of workers."""
    found = gain(loader__wait_share=0.2, loader__wait_ms=10.0, loader__input_share=cost, replay__step_ms=10.0)
    assert found.speedup == pytest.approx(most)


@pytest.mark.parametrize(("threads", "one", "cpu_ms"), [(1, 10.0, 20.0), (2, 10.0, 10.0), (2, 29.0, 29.5)])
def test_a_batch_is_shorter_in_a_worker_where_the_process_has_several_threads(threads, one, cpu_ms):
    named = {"run.num_threads": threads, "loader.one_worker_ms": one, "loader.batch_cpu_share": 1.0}
    costs = pipeline(evidence(named | {"loader.two_workers_ms": None}), LOADER, False)
    assert costs.cpu_ms + costs.io_ms == pytest.approx(cpu_ms, rel=0.01)
