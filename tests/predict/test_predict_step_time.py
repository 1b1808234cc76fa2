from __future__ import annotations

import math

import pytest

from autotune import predict
from autotune.model.evidence import RUN, Evidence

LOADER, OPTIMIZER = "loader#train", "optimizer#0"
FACTS = {
    RUN: {
        "step.mean_ms": 100.0,
        "step.noise_share": 0.02,
        "step.data_wait_share": 0.4,
        "step.optimizer_share": 0.2,
        "train.accumulation_steps": 4,
        "machine.cpus_per_rank": 4.0,
        "machine.load": 0.0,
        "run.num_threads": 1,
        "device.type": "cpu",
        "batch_curve.fixed_ms": 5.0,
        "batch_curve.per_unit_ms": 1.0,
        "batch_curve.units": 5.0,
        "batch_curve.fixed_share": 0.5,
        "batch_curve.error_share": 0.0,
    },
    LOADER: {
        "loader.batch_size": 5,
        "loader.num_workers": 0,
        "loader.persistent_workers": False,
        "loader.wait_share": 0.4,
        "loader.wait_ms": 10.0,
        "loader.batches_per_step": 4.0,
        "loader.num_batches": 1000,
        "loader.serial_ms": 10.0,
        "loader.one_worker_ms": 10.0,
        "loader.two_workers_ms": 5.0,
        "loader.handover_ms": 0.0,
        "loader.start_ms_per_worker": 0.0,
        "loader.end_ms_per_worker": 0.0,
        "loader.batch_cpu_share": 0.0,
        "loader.doubled_growth_share": 0.0,
        "loader.pad_share": 0.5,
        "loader.grouped_pad_share": 0.0,
    },
    OPTIMIZER: {"optimizer.has_fused": True, "optimizer.fused": False},
}


def forecast(candidate, *, without=(), **changed):
    named = {name.replace("__", "."): value for name, value in changed.items()}
    facts = {
        subject: {n: named.get(n, v) for n, v in values.items() if n not in without}
        for subject, values in FACTS.items()
    }
    return predict.step_ms(candidate, Evidence(facts, {}))


# Four micro-batches wait 10 ms and train 10 ms each; the update takes 20 ms.
@pytest.mark.parametrize(
    ("candidate", "ms"),
    [
        pytest.param({}, 100.0, id="nothing changes"),
        pytest.param({"loader.num_workers": 0}, 100.0, id="as it is"),
        pytest.param({"loader.num_workers": 2}, 60.0, id="workers hide the wait"),
        pytest.param(
            {"loader.batch_size": 10, "train.accumulation_steps": 2}, 40 + 2 * 15 + 20, id="half the fixed part"
        ),
        pytest.param({"data.group_by_length": True}, 40 + 4 * 7.5 + 20, id="half of the tokens, not of the fixed part"),
        pytest.param({"optimizer.fused": True}, 80 + 20 / 90**0.5, id="fused"),
        pytest.param(
            {"loader.num_workers": 2, "loader.batch_size": 20, "train.accumulation_steps": 1}, 45.0, id="both together"
        ),
    ],
)
def test_the_timeline_is_rebuilt(candidate, ms):
    found = forecast(candidate)
    assert found.ms == pytest.approx(ms, rel=0.02)
    assert found.low_ms < found.ms < found.high_ms
    assert found.unmodelled == ()


def test_faster_training_brings_the_wait_back():
    """Workers prepare a batch in 5 ms each way: a step of less training waits for them."""
    slow_loader = {
        "loader__wait_ms": 40.0,
        "loader__serial_ms": 40.0,
        "loader__one_worker_ms": 40.0,
        "loader__two_workers_ms": 20.0,
    }
    alone = forecast({"loader.num_workers": 2}, **slow_loader)
    together = forecast({"loader.num_workers": 2, "optimizer.fused": True}, **slow_loader)
    assert together.ms == pytest.approx(alone.ms, rel=0.02)


def test_a_setting_without_a_model_is_named():
    found = forecast({"train.compile": True, "loader.num_workers": 2})
    assert found.unmodelled == ("train.compile",)
    assert found.ms == pytest.approx(60.0, rel=0.02)


@pytest.mark.parametrize(
    ("candidate", "missing"),
    [
        ({"loader.num_workers": 2}, "loader.serial_ms"),
        ({"loader.batch_size": 10}, "batch_curve.fixed_ms"),
        ({"data.group_by_length": True}, "loader.grouped_pad_share"),
        ({"optimizer.fused": True}, "optimizer.has_fused"),
        ({"train.accumulation_steps": 2}, "train.accumulation_steps"),
    ],
)
def test_what_is_not_known_is_not_modelled(candidate, missing):
    found = forecast(candidate, without=(missing,))
    assert found.unmodelled == tuple(candidate)
    assert found.ms == pytest.approx(100.0, rel=0.01)


def test_a_step_that_was_not_measured_has_no_forecast():
    assert forecast({"loader.num_workers": 2}, without=("step.mean_ms",)) is None


REPLAYS = {
    "replay.step_ms": 60.0,
    "replay.one_thread_ms": 90.0,
    "replay.most_threads": 4,
    "replay.most_threads_ms": 30.0,
}


def replayed(candidate, **more):
    """With replays that were tried: the script has two threads, training takes 40 + 20 ms of its 100."""
    facts = {**FACTS, RUN: {**FACTS[RUN], **REPLAYS, "train.num_threads": 2, "run.num_threads": 2, **more}}
    return predict.step_ms(candidate, Evidence(facts, {}))


@pytest.mark.parametrize(
    ("candidate", "ms"),
    [
        pytest.param({"train.num_threads": 1}, 40 + 60 * 1.5, id="one thread was tried"),
        pytest.param({"train.num_threads": 4}, 40 + 60 * 0.5, id="so were all"),
    ],
)
def test_threads_are_those_of_the_replays(candidate, ms):
    found = replayed(candidate)
    assert (found.ms, found.unmodelled) == (pytest.approx(ms), ())


def test_a_number_of_threads_that_was_not_tried_is_named():
    assert replayed({"train.num_threads": 3}).unmodelled == ("train.num_threads",)


def test_a_measured_ratio_makes_fused_updates_certain():
    fused = {"optimizer.fused": True}
    measured, ranged = replayed(fused, **{"replay.fused_ratio": 4.0}), replayed(fused)
    assert measured.ms == pytest.approx(85.0)
    assert measured.high_ms - measured.low_ms < ranged.high_ms - ranged.low_ms


def test_persistent_workers_start_once_a_run():
    facts = {**FACTS, RUN: {**FACTS[RUN], "run.num_planned_epochs": 10}}
    facts[LOADER] = {**FACTS[LOADER], "loader.start_ms_per_worker": 100.0, "loader.num_batches": 20}
    once, each = (
        predict.step_ms({"loader.num_workers": 2, **more}, Evidence(facts, {}))
        for more in ({"loader.persistent_workers": True}, {})
    )
    assert each.ms - once.ms == pytest.approx(4 * (200 + 10) * (1 / 20 - 1 / 200), rel=0.05)


@pytest.mark.parametrize(
    ("candidate", "is_wider"), [({"loader.num_workers": 0}, True), ({"optimizer.fused": True}, False)]
)
def test_other_workers_are_known_no_better_than_those_that_there_are(candidate, is_wider):
    def width(mean_ms):
        # Two workers hide all of a wait of 10 ms; what else of the step was a wait nobody knows.
        share = 1 - 60.0 / mean_ms
        changed = {"loader__num_workers": 2, "step__mean_ms": mean_ms, "loader__wait_share": share}
        found = forecast(candidate, **changed, step__data_wait_share=share, step__optimizer_share=20 / mean_ms)
        return found.high_ms / found.ms - 1

    assert (width(120.0) > math.log(2) > width(60.0)) is is_wider


def test_settings_of_a_loader_without_workers_save_its_wait_at_most():
    assert forecast({"loader.num_workers": 2, "loader.prefetch_factor": 4}).least_ms == pytest.approx(60.0)
    assert forecast({"loader.num_workers": 2}, without=("loader.serial_ms",)).least_ms == pytest.approx(60.0)
    assert forecast({"loader.num_workers": 2, "optimizer.fused": True}).least_ms is None
    assert forecast({"loader.num_workers": 2}, loader__num_workers=1).least_ms is None
    for unknown in ("step.data_wait_share", "loader.num_workers"):
        assert forecast({"loader.num_workers": 2}, without=(unknown,)).least_ms is None
