"""What is right, what would not help, and what was not looked at, by the shipped rules and topics."""

from __future__ import annotations

import re
from typing import Any

import pytest
from engine_builders import TRAIN, finding, rule
from msgspec.structs import replace

from autotune.catalogue import names
from autotune.engine.coverage import coverage
from autotune.engine.load import load_rules
from autotune.model.evidence import RUN, Evidence, Setting, Value
from autotune.model.finding import Evaluation, Passed, Skipped
from autotune.model.report import RunSummary
from autotune.model.rule import Remark, Rule, Severity

RULES = {each.id: each for each in load_rules()}


def summary(**given: Any) -> RunSummary:
    return RunSummary(**{"folder": "", "command": (), "outcome": "completed", "num_processes": 1, **given})


def said(*passed: Passed, findings: tuple = (), facts: dict[str, dict[str, Value]] | None = None, **known) -> list[str]:
    found = coverage(Evaluation(findings, (), passed), Evidence(facts or {}, **known), summary())
    return [*found.right, *(f"not: {each}" for each in found.useless)]


def not_looked_at(*needs: str, facts: dict[str, dict[str, Value]] | None = None, **of_run: Any) -> list[str]:
    skips = tuple(Skipped(rule(), RUN, (each,)) for each in needs)
    found = coverage(Evaluation((), skips, ()), Evidence(facts or {}), summary(**of_run))
    return [f"{topic} ({reason})" for topic, reason in found.not_looked_at]


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
        (["OP001"], "optimizer#0", {"optimizer.fused": False, "optimizer.step_share": 0.012},
         ["not: fused optimizer (update 1.2 %)"]),
        (["PR001", "DL004"], TRAIN, {"device.type": "cpu"},
         ["not: TF32 (CPU run)", "not: pinned memory (CPU run)"]),
        (["PR001", "DL004"], TRAIN, {"device.type": "cuda"}, []),
        (["PR001"], "run", {"device.type": "cpu", "device.gemm_fp32_share": 0.0}, ["not: TF32 (CPU run)"]),
        (["PR001"], "run", {"device.type": "cuda", "device.gemm_fp32_share": 0.004},
         ["not: TF32 (fp32 GEMM 0.4 %)"]),
        (["CO001"], "run", {"device.busy_share": 0.97}, ["not: CUDA graphs (device busy 97 %)"]),
        (["CO001"], "run", {"device.busy_share": 0.9}, []),
    ],
)  # fmt: skip
def test_a_remark_needs_its_rule_and_its_fact(
    ids: list[str], subject: str, facts: dict[str, Value], expected: list[str]
) -> None:
    known = {subject: {"loader.is_train": True, **facts}}
    assert said(*(Passed(RULES[each], subject) for each in ids), facts=known) == expected


def test_of_rules_with_the_same_words_that_fired_silences_the_others() -> None:
    facts = {TRAIN: {"loader.wait_share": 0.01, "loader.is_train": True}}
    fired = replace(finding("DL002"), rule=RULES["DL002"])
    assert said(Passed(RULES["DL001"], TRAIN), facts=facts) == ["loader", "not: more workers (wait 1 %)"]
    assert said(Passed(RULES["DL001"], TRAIN), findings=(fired,), facts=facts) == []


def test_one_that_fired_for_another_subject_silences_nothing() -> None:
    facts = {TRAIN: {"loader.wait_share": 0.01, "loader.is_train": True}}
    fired = replace(finding("DL002", subject="loader#2"), rule=RULES["DL002"])
    assert said(Passed(RULES["DL001"], TRAIN), findings=(fired,), facts=facts)[0] == "loader"


def test_a_setting_is_known_as_well_as_a_fact() -> None:
    setting = Setting("train.precision", RUN, "fp16-mixed", "observed")
    assert said(Passed(RULES["PR002"], RUN), settings={(RUN, setting.name): setting}) == ["fp16-mixed"]


def test_the_gravest_rule_speaks_first_and_no_words_twice() -> None:
    def of(rule_id: str, severity: Severity, words: str) -> Rule:
        return rule(rule_id, severity=severity, right=(Remark("loader.is_train", words),))

    rules = (
        of("AA001", Severity.LOW, "small"),
        of("AA002", Severity.HIGH, "large"),
        of("AA003", Severity.LOW, "large"),
    )
    assert said(*(Passed(each, TRAIN) for each in rules), facts={TRAIN: {"loader.is_train": True}}) == [
        "large",
        "small",
    ]


CPU = {RUN: {"device.type": "cpu"}}


@pytest.mark.parametrize(
    ("needs", "facts", "of_run", "expected"),
    [
        (["ranks.spread_share"], {RUN: {"run.world_size": 1}}, {}, ["communication (one process)"]),
        (["ranks.spread_share"], {RUN: {"run.world_size": 2}}, {},
         ["communication (no collective was timed)"]),
        (["checkpoint.save_s", "checkpoint.cost_share"], {}, {}, ["saves (fewer than two were seen)"]),
        (["checkpoint.save_s"], {RUN: {"checkpoint.num_seen": 0}}, {}, ["saves (none seen)"]),
        (["evaluation.eval_s"], {RUN: {"evaluation.num_seen": 0}}, {}, ["evaluation (none seen)"]),
        (["loader.wait_share"], {}, {}, ["data loading (no DataLoader)"]),
        (["loader.wait_share"], {TRAIN: {"loader.is_train": True}}, {}, ["data loading (too few batches were seen)"]),
        (["device.mean_kernel_us", "calls.user_syncs_per_step"], CPU, {},
         ["device kernels (CPU run)", "waiting for the device (CPU run)"]),
        (["machine.driver"], CPU, {}, ["GPU state (CPU run)"]),
        (["machine.driver"], {RUN: {"device.type": "cpu", "machine.num_gpus": 0}}, {}, ["GPU state (no GPU)"]),
        (["run.planned_s"], {}, {}, ["run length (the script does not state it)"]),
        (["run.planned_s"], {RUN: {"run.num_planned_steps": 1000}}, {},
         ["run length (only partly timed)"]),
        (["loader.constant_share"], {}, {"num_processes": 2},
         ["repeated work in batches (no what-if probes with several processes)"]),
        (["replay.best_threads"], {}, {"kept_going": True},
         ["thread counts (training continued after the window)"]),
        (["replay.best_threads"], {}, {"outcome": "ended_early"},
         ["thread counts (the script ended before the what-if probe)"]),
        (["replay.best_threads"], {RUN: {"replay.is_crowded": True}}, {"replayed": True},
         ["thread counts (other programs kept the CPUs busy during the replays)"]),
        (["replay.determinism_least_share"], {RUN: {"replay.determinism_was_tried": True}}, {"replayed": True},
         ["deterministic algorithms (the replays were too noisy)"]),
        (["replay.best_threads"], {}, {"replayed": True},
         ["thread counts (no time was left for the what-if probe)"]),
        (["loader.constant_share", "batch_curve.fixed_share"], {}, {},
         ["repeated work in batches (no what-if probe)",
          "other batch sizes (no what-if probe)"]),
        ([], {}, {}, []),
    ],
)  # fmt: skip
def test_not_looked_at(needs: list[str], facts: dict, of_run: dict[str, Any], expected: list[str]) -> None:
    assert not_looked_at(*needs, facts=facts, **of_run) == expected


def test_what_files_do_not_say_is_named_only_where_nothing_else_is_missing() -> None:
    def topics(*needs: str) -> list[str]:
        skips = (Skipped(rule(), RUN, needs),)
        return [topic for topic, _ in coverage(Evaluation((), skips, ()), Evidence(), summary()).not_looked_at]

    assert topics("config.limits_checkpoints", "checkpoint.bytes") == ["checkpoint size"]
    assert topics("config.fsdp", "code.accumulation_mistake") == ["settings and code"]


def test_every_fact_and_setting_has_a_topic_and_a_reason_in_words_why_it_may_be_missing() -> None:
    for name in names():
        (said,) = not_looked_at(name, num_processes=2)
        assert re.fullmatch(r"[^()._]+ \([^()._]{7,}\)", said), f"{name}: {said}"
