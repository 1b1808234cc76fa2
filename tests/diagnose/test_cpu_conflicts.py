"""Workers and threads on the same CPUs: neither is first on a gain that the other takes away."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from autotune import predict
from autotune.diagnose import cpu_conflicts
from autotune.engine.evaluate import evaluate
from autotune.engine.load import load_rules
from autotune.model.evidence import RUN, Evidence, Setting
from autotune.model.finding import Finding

TRAIN = "loader#train"
RULES = [rule for rule in load_rules() if rule.id in ("CP001", "DL001")]

FACTS = {
    RUN: {
        "step.mean_ms": 100.0,
        "step.median_ms": 100.0,
        "step.num_steps": 30,
        "step.noise_share": 0.02,
        "step.data_wait_share": 0.7,
        "step.compute_share": 0.25,
        "step.optimizer_share": 0.05,
        "step.starts_loader": False,
        "run.num_threads": 2,
        "run.local_world_size": 1,
        "device.type": "cpu",
        "machine.load": 0.0,
        "machine.cpu_quota": 2.0,
        "machine.cpus_per_rank": 2.0,
        "machine.physical_cores": 2,
        "replay.was_measured": True,
        "replay.step_ms": 30.0,
        "replay.low_ms": 29.0,
        "replay.high_ms": 31.0,
        "replay.best_threads": 1,
        "replay.threads_share": 0.6,
        "replay.one_thread_ms": 12.0,
        "replay.more_threads_were_tried": False,
    },
    TRAIN: {
        "loader.is_train": True,
        "loader.is_map_style": True,
        "loader.wait_share": 0.7,
        "loader.input_share": 0.7,
        "loader.wait_ms": 70.0,
        "loader.batches_per_step": 1.0,
        "loader.num_batches": 1000,
        "loader.workers_needed": 1,
        "loader.serial_ms": 70.0,
        "loader.one_worker_ms": 9.0,
        "loader.handover_ms": 1.0,
        "loader.start_ms_per_worker": 0.0,
        "loader.end_ms_per_worker": 0.0,
        "loader.batch_cpu_share": 1.0,
    },
}
SETTINGS = {
    (RUN, "train.num_threads"): Setting("train.num_threads", RUN, 2, "default"),
    (TRAIN, "loader.num_workers"): Setting("loader.num_workers", TRAIN, 0, "default"),
}


def known(**changed) -> Evidence:
    named = {name.replace("__", "."): value for name, value in changed.items()}
    facts = {owner: {name: named.get(name, value) for name, value in rows.items()} for owner, rows in FACTS.items()}
    return Evidence(facts, SETTINGS)


def found(evidence: Evidence) -> dict[str, Finding]:
    findings = evaluate(RULES, evidence).findings
    return {one.rule.id: replace(one, gain=predict.predict(one.rule.gain, evidence, one.subject)) for one in findings}


def test_one_thread_and_no_workers_beats_a_worker_beside_it() -> None:
    """Two threads make a batch eight times as slow as in a worker, which has one: that is all that a worker wins."""
    evidence = known(machine__cpus_per_rank=1.1, loader__one_worker_ms=9.0)
    findings = found(evidence)
    assert set(findings) == {"CP001", "DL001"}
    threads = findings["CP001"]
    assert threads.gain.speedup > 3.5
    kept, left_out = cpu_conflicts.resolve(tuple(findings.values()), evidence)
    assert [one.rule.id for one in kept] == ["CP001"]
    (gone,) = left_out
    assert (gone.rule.id, gone.gain.note) == ("DL001", "beside the change of CP001")
    assert gone.gain.speedup < 1.05


def test_both_stay_where_each_adds_something() -> None:
    evidence = known(loader__one_worker_ms=40.0)
    findings = tuple(found(evidence).values())
    assert cpu_conflicts.resolve(findings, evidence) == (findings, ())
    pair, gain = cpu_conflicts.together(findings, evidence)
    assert {one.rule.id for one in pair} == {"CP001", "DL001"}
    assert gain.speedup >= max(one.gain.speedup for one in findings)
    assert gain.low <= gain.speedup <= gain.high


@pytest.mark.parametrize("missing", ["CP001", "DL001"])
def test_one_of_them_alone_is_as_it_is(missing: str) -> None:
    evidence = known()
    findings = tuple(one for name, one in found(evidence).items() if name != missing)
    assert cpu_conflicts.resolve(findings, evidence) == (findings, ())
    assert cpu_conflicts.together(findings, evidence) == ((), None)


def test_what_was_not_tried_settles_nothing() -> None:
    evidence = known(replay__best_threads=3, run__num_threads=4)
    findings = tuple(found(evidence).values())
    assert cpu_conflicts.resolve(findings, evidence) == (findings, ())


@pytest.mark.parametrize("unknown", ["CP001", "DL001"])
def test_a_change_of_unknown_gain_takes_that_of_no_other(unknown: str) -> None:
    evidence = known(machine__cpus_per_rank=1.1, loader__one_worker_ms=9.0)
    findings = tuple(replace(one, gain=None) if name == unknown else one for name, one in found(evidence).items())
    assert cpu_conflicts.resolve(findings, evidence) == (findings, ())


def test_a_worker_that_took_a_tenth_of_the_time_leaves_a_step_that_takes_some() -> None:
    """Other programs were busy while the training process prepared its batches, and hardly beside the worker."""
    evidence = known(
        step__mean_ms=461.6,
        step__median_ms=458.0,
        step__data_wait_share=0.43,
        step__compute_share=0.46,
        machine__load=4.9,
        replay__step_ms=252.7,
        replay__one_thread_ms=56.2,
        loader__wait_share=0.43,
        loader__wait_ms=198.6,
        loader__serial_ms=242.8,
        loader__one_worker_ms=22.6,
        loader__handover_ms=6.0,
        loader__batch_cpu_share=0.36,
    )
    _, left_out = cpu_conflicts.resolve(tuple(found(evidence).values()), evidence)
    assert all(one.gain.low > 0 for one in left_out)
    _, gain = cpu_conflicts.together(tuple(found(evidence).values()), evidence)
    assert 0 < gain.low <= gain.speedup <= gain.high
