"""A wait that no recommendation is about has its reason."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from report_builders import TRAIN, evidence, finding, passed, recommendation, report, rule, run, skipped, step

from autotune.model.report import Report
from autotune.model.rule import GainSpec
from autotune.report.text import data_wait_reason, verdict

WORKERS = rule(gain=GainSpec("workers", {}))


def waiting(*recommendations, share: float = 0.71, workers: int = 0, cpus: float = 1.0, processes: int = 2, **facts):
    known = {
        "run": {"step.data_wait_share": share, "machine.cpus_per_rank": cpus, **facts},
        TRAIN: {"loader.wait_share": share, "loader.num_workers": workers},
    }
    return report(
        *recommendations,
        run=run(num_processes=processes),
        step=step(data_wait=100 * share, forward=100 * (1 - share)),
        evidence=evidence(known),
        passed=passed("DL001", subject=TRAIN),
        skipped=(skipped("DL006", "loader.constant_share", subject=TRAIN),),
    )


def said(made: Report) -> str:
    return " ".join(line.text for line in verdict.lines(made, 80))


def test_one_cpu_for_each_of_several_processes() -> None:
    assert (
        "71 % of each step is spent waiting for data. No change is recommended for the data wait (71 %): another "
        "worker would need its own CPU, and a process has 1 CPU; repeated work in its batches was not measured "
        "(several processes)."
    ) in said(waiting())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"workers": 2, "cpus": 2.0}, "a process has 2 CPUs"),
        ({"cpus": 4.0}, "no gain is predicted for another worker"),
        ({"cpus": 4.0, "step.starts_loader": True}, "each step starts a new iterator over the loader"),
        ({"processes": 1}, "repeated work in its batches was not measured."),
    ],
)
def test_other_reasons(given: dict, why: str) -> None:
    assert why in data_wait_reason.sentence(waiting(**given))


def test_beside_which_change_workers_would_not_help() -> None:
    made = waiting(cpus=4.0)
    (workers,) = made.evaluation.passed
    beside = replace(made.evaluation, passed=(replace(workers, note="beside the change of CP001"),))
    said = data_wait_reason.sentence(replace(made, evaluation=beside))
    assert "data wait (71 %): beside the change of CP001 no gain is predicted for another worker" in said


def test_where_something_else_is_recommended_the_top_says_why_workers_are_not() -> None:
    other = recommendation(1, finding(rule("DL006", gain=GainSpec("measured_ceiling", {})), "m", subject=TRAIN))
    assert "More workers would not help here: no gain is predicted for another worker." in said(
        waiting(other, cpus=4.0)
    )


@pytest.mark.parametrize(
    "made",
    [
        waiting(share=0.099),
        waiting(recommendation(1, finding(WORKERS, "m", subject=TRAIN))),
        report(run=run(), step=step(forward=1.0)),
    ],
    ids=["a small wait", "a change for it", "no wait was seen"],
)
def test_nothing_to_explain(made: Report) -> None:
    assert data_wait_reason.sentence(made) == ""


def test_what_batches_cost_beside_the_wait_is_no_computing() -> None:
    facts = {TRAIN: {"loader.input_share": 0.57}, "run": {"step.data_wait_share": 0.31}}
    made = report(run=run(), step=step(data_wait=31.0, forward=49.0, other=20.0), evidence=evidence(facts))
    assert "Input-bound: data loading costs 57 % of each step: 31 % is data wait" in said(made)
    less = {TRAIN: {"loader.input_share": 0.35}, "run": {"step.data_wait_share": 0.31}}
    made = report(run=run(), step=step(data_wait=31.0, forward=49.0, other=20.0), evidence=evidence(less))
    assert "Compute-bound: 49 %" in said(made)
