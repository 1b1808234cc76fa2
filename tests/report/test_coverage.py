from __future__ import annotations

import re

import pytest
from report_builders import TRAIN, evidence, finding, passed, recommendation, report, rule, run, skipped, step

from autotune.catalogue import names
from autotune.model.evidence import Setting, Value
from autotune.model.finding import Skipped
from autotune.model.report import Report
from autotune.report import coverage
from autotune.report.coverage import RIGHT, USELESS


def said(made: Report) -> list[str]:
    return [
        *coverage.remarks(RIGHT, made.evidence, made.evaluation),
        *(f"not: {each}" for each in coverage.remarks(USELESS, made.evidence, made.evaluation)),
    ]


@pytest.mark.parametrize(
    ("ids", "subject", "facts", "expected"),
    [
        (["DL001"], TRAIN, {"loader.wait_share": 0.006}, ["loader", "not: more workers (wait 0.6 %)"]),
        (["DL001"], TRAIN, {"loader.wait_share": 0.05}, []),
        (["DL001"], TRAIN, {}, []),
        (["DL001"], TRAIN, {"loader.wait_share": 0.006, "loader.is_train": False}, []),
        (["DL009"], TRAIN, {"loader.wait_share": 0.006}, []),
        (["PR002"], "run", {"train.precision": "bf16-mixed"}, ["bf16-mixed"]),
        (["PR002"], "run", {"train.precision": "fp32"}, []),
        (["AT001"], "run", {"model.attention": "eager"}, []),
        (["AT001"], "run", {"model.attention": "flash_attention_2"}, ["flash_attention_2 attention"]),
        (["OP001"], "optimizer#0",
         {"optimizer.fused": True, "optimizer.type": "AdamW", "optimizer.step_share": 0.01},
         ["fused AdamW"]),
        (["OP001"], "optimizer#0", {"optimizer.fused": False, "optimizer.step_share": 0.01},
         ["not: fused optimizer (update 1.0 %)"]),
        (["PR001", "DL004"], "run", {"device.type": "cpu"},
         ["not: TF32 (CPU run)", "not: pinned memory (CPU run)"]),
        (["PR001", "DL004"], "run", {"device.type": "cuda"}, []),
        (["PR001"], "run", {"device.type": "cuda", "device.gemm_fp32_share": 0.004},
         ["not: TF32 (fp32 GEMM 0.4 %)"]),
        (["CO001"], "run", {"device.busy_share": 0.97}, ["not: CUDA graphs (device busy 97 %)"]),
        (["CO001"], "run", {"device.busy_share": 0.9}, []),
    ],
)  # fmt: skip
def test_a_remark_needs_its_rule_and_its_fact(
    ids: list[str], subject: str, facts: dict[str, Value], expected: list[str]
) -> None:
    made = report(
        run=run(),
        step=step(forward=1.0),
        passed=passed(*ids, subject=subject),
        evidence=evidence({subject: facts}),
    )
    assert said(made) == expected


def test_a_rule_that_fired_takes_the_praise_back() -> None:
    made = report(
        recommendation(1, finding(rule("DL002"), "m", subject=TRAIN)),
        run=run(),
        step=step(forward=1.0),
        passed=passed("DL001", subject=TRAIN),
        evidence=evidence({TRAIN: {"loader.wait_share": 0.01}}),
    )
    assert said(made) == []


def test_a_setting_is_known_as_well_as_a_fact() -> None:
    made = report(
        run=run(),
        step=step(forward=1.0),
        passed=passed("PR002"),
        evidence=evidence(settings=(Setting("train.precision", "run", "fp16-mixed", "observed"),)),
    )
    assert said(made) == ["fp16-mixed"]


@pytest.mark.parametrize(
    ("skips", "processes", "expected"),
    [
        ([skipped("DD006", "ranks.spread_share")], 1, ["communication (one process)"]),
        ([skipped("DD006", "ranks.spread_share")], 2, ["communication (its collectives were not timed)"]),
        ([skipped("A", "checkpoint.save_s"), skipped("B", "checkpoint.save_s")], 1,
         ["saves (fewer than two were seen)"]),
        ([skipped("A", "loader.wait_share")], 1, ["data loading (no DataLoader)"]),
        ([skipped("A", "loader.pad_share")], 1, ["padding (the batches do not show it)"]),
        ([skipped(each, "memory.peak_bytes") for each in "ABCD"], 1,
         ["memory (its peak or its limit is not known)"]),
        ([skipped("A", "run.planned_s")], 1, ["length of the run (the script does not tell)"]),
        ([skipped("AT005", "model.attention", "train.precision")], 1, ["attention (the model does not name its kind)"]),
        ([skipped("CK003", "config.limits_checkpoints", "checkpoint.bytes")], 1,
         ["size of checkpoints (it was not measured)"]),
        ([skipped("FS003", "config.fsdp"), skipped("GA003", "code.accumulation_mistake")], 1,
         ["settings and code (the files that were read do not show it)"]),
        ([skipped("DL006", "loader.constant_share")], 2,
         ["what batches repeat (with several processes nothing is tried after the window)"]),
        ([skipped("DL006", "loader.constant_share"), skipped("ME005", "batch_curve.fixed_share")], 1,
         ["what batches repeat, other batch sizes (it was not tried after the window)"]),
        ([skipped("A", "x.y"), skipped("A", "x.y", subject=TRAIN)], 1,
         ["how the job is set up (the run does not tell)"]),
        ([], 1, []),
    ],
)  # fmt: skip
def test_not_looked_at(skips: list[Skipped], processes: int, expected: list[str]) -> None:
    made = report(run=run(num_processes=processes), step=step(forward=1.0), skipped=tuple(skips))
    assert coverage.not_looked_at(made.evaluation.skipped, made) == expected


def test_a_run_of_known_steps_and_unknown_time_is_no_fault_of_the_script() -> None:
    made = report(run=run(planned_steps=1000), step=step(forward=1.0), skipped=(skipped("A", "run.planned_s"),))
    assert coverage.not_looked_at(made.evaluation.skipped, made) == ["length of the run (not all of it was timed)"]


def test_no_fact_or_setting_is_named_as_the_catalogue_names_it() -> None:
    skips = tuple(skipped("A", name) for name in names())
    made = report(run=run(num_processes=2), step=step(forward=1.0), skipped=skips)
    assert not [phrase for phrase in coverage.not_looked_at(skips, made) if re.search(r"[._]", phrase)]


def test_what_there_was_no_time_to_try_is_not_said_to_have_been_left_out() -> None:
    skips = (skipped("CP001", "replay.best_threads"),)
    made = report(run=run(replayed=True), step=step(forward=1.0), skipped=skips)
    said = ["numbers of threads (the time for trying more after the window was over)"]
    assert coverage.not_looked_at(skips, made) == said


def test_every_fact_and_setting_has_a_reason_in_words_why_it_may_be_missing() -> None:
    made = report(run=run(num_processes=2), step=step(forward=1.0))
    for name in names():
        (said,) = coverage.not_looked_at([skipped("A", name)], made)
        assert re.fullmatch(r"[^()]+ \([^()]{7,}\)", said), f"{name}: {said}"
        assert "too little" not in said


def test_gpu_kernels_of_a_cpu_run() -> None:
    made = report(
        run=run(),
        step=step(forward=1.0),
        skipped=(skipped("CO001", "device.mean_kernel_us"),),
        evidence=evidence({"run": {"device.type": "cpu"}}),
    )
    assert [line.text for line in coverage.lines(made, 80)] == ["Not looked at: device kernels (CPU run)"]
