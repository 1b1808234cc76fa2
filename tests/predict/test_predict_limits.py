"""Whatever was measured, however noisy: what is predicted is a time, positive and finite, between its two ends."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune import predict
from autotune.engine.load import load_rules
from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.predict.workers import pipeline

TRAIN = "loader#train"
MS = st.sampled_from((0.01, 1.0, 16.2, 22.6, 198.6, 242.8, 5e4))
SHARE = st.sampled_from((0.0, 0.001, 0.1, 0.36, 0.43, 0.9, 0.999, 1.0))
OF_STEP = st.sampled_from((0.0, 0.02, 0.1, 0.3))
RATIO = st.sampled_from((0.001, 0.1, 0.5, 1.0, 8.0))
CPUS = st.sampled_from((0.0, 0.3, 1.2, 2.0, 64.0))
COUNT = st.sampled_from((1, 2, 8))

RUN_FACTS = {
    "step.mean_ms": MS,
    "step.noise_share": st.sampled_from((0.0, 0.13, 0.9, 1.0, 2.5)),
    **{f"step.{phase}_share": OF_STEP for phase in ("optimizer", "checkpoint", "evaluation", "logging")},
    "step.compute_share": SHARE,
    "run.num_threads": COUNT,
    "train.num_threads": COUNT,
    "run.num_planned_steps": COUNT,
    "train.accumulation_steps": COUNT,
    "device.type": st.sampled_from(("cpu", "cuda")),
    "machine.cpus_per_rank": st.sampled_from((0.5, 1.0, 2.0, 16.0)),
    "machine.load": CPUS,
    "machine.other_cpus": CPUS,
    "replay.step_ms": MS,
    "replay.low_ms": MS,
    "replay.high_ms": MS,
    "replay.one_thread_ms": MS,
    "replay.best_threads": COUNT,
    "replay.threads_share": SHARE,
    "replay.fused_ratio": RATIO,
    "replay.anomaly_share": SHARE,
    "batch_curve.fixed_ms": MS,
    "batch_curve.per_unit_ms": MS,
    "batch_curve.units": COUNT,
    "batch_curve.fixed_share": SHARE,
    "batch_curve.error_share": st.sampled_from((0.0, 0.2, 0.9, 5.0)),
    "batch_curve.narrow_ratio": RATIO,
    "checkpoint.cost_share": SHARE,
    "evaluation.cost_share": SHARE,
}
OF_LOADER = {
    "loader.num_workers": st.sampled_from((0, 1, 4)),
    "loader.workers_needed": COUNT,
    "loader.batch_size": COUNT,
    "loader.num_batches": COUNT,
    "loader.batches_per_step": st.sampled_from((0.5, 1.0, 4.0)),
    "loader.batch_ms": MS,
    "loader.wait_ms": MS,
    "loader.wait_share": SHARE,
    "loader.input_share": SHARE,
    "loader.epoch_start_share": SHARE,
    "loader.serial_ms": MS,
    "loader.one_worker_ms": MS,
    "loader.two_workers_ms": MS,
    "loader.alone_batch_ms": MS,
    "loader.handover_ms": MS,
    "loader.start_ms_per_worker": MS,
    "loader.end_ms_per_worker": MS,
    "loader.batch_cpu_share": SHARE,
    "loader.batch_cv": CPUS,
    "loader.pad_share": SHARE,
    "loader.dynamic_pad_share": SHARE,
    "loader.grouped_pad_share": SHARE,
    "loader.doubled_growth_share": SHARE,
}
OF_OPTIMIZER = {"optimizer.step_share": SHARE, "optimizer.has_fused": st.booleans(), "optimizer.fused": st.booleans()}

SPECS = tuple((rule.gain, rule.subject) for rule in load_rules() if rule.gain)
CHANGES = {
    "train.num_threads": 1,
    "loader.num_workers": 1,
    "loader.persistent_workers": True,
    "loader.batch_size": 16,
    "optimizer.fused": True,
    "data.group_by_length": True,
}


def some(facts):
    """Most of the facts: of the others nothing is known."""
    return st.fixed_dictionaries({}, optional=facts)


def evidence(run, loader, optimizer) -> Evidence:
    replayed = [name for name in ("replay.low_ms", "replay.step_ms", "replay.high_ms") if name in run]
    run |= dict(zip(replayed, sorted(run[name] for name in replayed), strict=True))
    return Evidence({RUN: run, TRAIN: loader, "optimizer#0": optimizer}, {})


EVIDENCE = st.builds(
    evidence,
    *(st.one_of(st.fixed_dictionaries(facts), some(facts)) for facts in (RUN_FACTS, OF_LOADER, OF_OPTIMIZER)),
)


def is_possible(gain: Gain) -> bool:
    ends = (gain.low, gain.speedup, gain.high)
    return all(map(math.isfinite, ends)) and 0 < gain.low <= gain.speedup <= gain.high


@settings(max_examples=60, deadline=None)
@given(known=EVIDENCE)
def test_a_gain_is_possible_alone_and_beside_others(known: Evidence) -> None:
    subjects = {"run": RUN, "loader": TRAIN, "optimizer": "optimizer#0"}
    parts = []
    for spec, kind in SPECS:
        found = predict.predict(spec, known, subjects.get(kind, RUN))
        if found is not None:
            assert is_possible(found), (spec, found)
            parts.append((predict.target(spec), found))
    if parts:
        together = predict.combine(parts, known)
        assert is_possible(together), (parts, together)


@settings(max_examples=60, deadline=None)
@given(known=EVIDENCE, changes=st.sampled_from([*combinations(CHANGES, 1), *combinations(CHANGES, 2), tuple(CHANGES)]))
def test_a_step_under_changed_settings_takes_time(known: Evidence, changes: tuple[str, ...]) -> None:
    found = predict.step_ms({name: CHANGES[name] for name in changes}, known)
    if found is not None:
        ends = (found.low_ms, found.ms, found.high_ms)
        assert all(map(math.isfinite, ends)), found
        assert 0 < found.low_ms <= found.ms <= found.high_ms, found


@pytest.mark.parametrize("one_worker_ms", [1.0, 22.6, 198.0, 242.8, 400.0])
@pytest.mark.parametrize("cpu_share", [0.0, 0.36, 1.0])
def test_a_worker_neither_computes_nor_waits_for_less_than_nothing(one_worker_ms: float, cpu_share: float) -> None:
    """Other programs kept the training process from its CPUs: a worker took a tenth of the time."""
    run = {"step.mean_ms": 461.6, "machine.cpus_per_rank": 2.0, "machine.other_cpus": 1.2, "run.num_threads": 2}
    loader = {
        "loader.batches_per_step": 1.0,
        "loader.wait_share": 0.43,
        "loader.num_workers": 0,
        "loader.wait_ms": 198.6,
        "loader.serial_ms": 242.8,
        "loader.one_worker_ms": one_worker_ms,
        "loader.two_workers_ms": 16.2,
        "loader.handover_ms": 6.0,
        "loader.start_ms_per_worker": 105.0,
        "loader.end_ms_per_worker": 15.6,
        "loader.batch_cpu_share": cpu_share,
    }
    found = pipeline(Evidence({RUN: {**run, "device.type": "cpu"}, TRAIN: loader}, {}), TRAIN, persistent=True)
    assert found.io_ms >= 0
    assert found.cpu_ms >= 0
