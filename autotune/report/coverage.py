"""What is already right, what would not help and what was not looked at: each only with its fact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autotune.model.evidence import RUN, Evidence, Value
from autotune.model.finding import Evaluation, Skipped
from autotune.model.report import Report
from autotune.report.layout import Line, paragraph
from autotune.report.units import percent

SMALL = 0.05
"""Below this share a part of the step cannot pay for a change that shrinks it."""


@dataclass(frozen=True, slots=True)
class Remark:
    """`words` may be said of a subject when one of `rules` passed, none fired and the known `fact` `holds`.

    `unless` names a setting that, when true, leaves nothing to remark. `words` has places for {value},
    {share} (the value in per cent) and {type} (the optimizer's class).
    """

    rules: tuple[str, ...]
    fact: str
    holds: Callable[[Value], bool]
    words: str
    unless: str = ""


def _small(value: Value) -> bool:
    return isinstance(value, float) and value < SMALL


def _is_true(value: Value) -> bool:
    return value is True


def _is_reduced(value: Value) -> bool:
    return str(value).split("-")[0] in ("bf16", "fp16")


def _is_cpu(value: Value) -> bool:
    return value == "cpu"


_LOADER = ("DL001", "DL002")

RIGHT = (
    Remark(("PR002", "PR005"), "train.precision", _is_reduced, "{value}"),
    Remark(("AT001",), "model.attention", lambda value: value != "eager", "{value} attention"),
    Remark(("OP001", "CP004"), "optimizer.fused", _is_true, "fused {type}"),
    Remark(_LOADER, "loader.wait_share", _small, "loader"),
    Remark(("DL007",), "loader.persistent_workers", _is_true, "persistent workers"),
    Remark(("BA001", "BA005"), "loader.pad_share", _small, "padding ({share})"),
    Remark(("CK001",), "checkpoint.cost_share", _small, "save interval (saves {share})"),
    Remark(("EV001",), "evaluation.cost_share", _small, "evaluation interval ({share})"),
)

USELESS = (
    Remark(_LOADER, "loader.wait_share", _small, "more workers (wait {share})"),
    Remark(("PR001",), "device.type", _is_cpu, "TF32 (CPU run)"),
    Remark(("PR001",), "device.gemm_fp32_share", _small, "TF32 (fp32 GEMM {share})"),
    Remark(("DL004",), "device.type", _is_cpu, "pinned memory (CPU run)"),
    Remark(("BA002",), "loader.pad_share", _small, "length grouping (padding {share})"),
    Remark(
        ("OP001", "CP004"),
        "optimizer.step_share",
        _small,
        "fused optimizer (update {share})",
        "optimizer.fused",
    ),
    Remark(
        ("CO001",),
        "device.busy_share",
        lambda value: isinstance(value, float) and value > 1 - SMALL,
        "CUDA graphs (device busy {share})",
    ),
)

_TOPICS = {
    "ranks.": "communication",
    "device.": "device kernels",
    "calls.user_sync": "waiting for the device",
    "calls.": "calls that cost time",
    "machine.gpu": "GPU state",
    "machine.shm": "shared memory",
    "machine.": "CPUs of the machine",
    "software.": "installed versions",
    "env.": "environment variables",
    "memory.": "memory",
    "replay.": "steps without loading",
    "batch_curve.": "other batch sizes",
    "checkpoint.": "saves",
    "evaluation.": "evaluation",
    "loader.len": "lengths",
    "loader.at_limit": "lengths",
    "data.max_length": "lengths",
    "data.packing": "lengths",
    "data.": "padding",
    "loader.num_lengths": "padding",
    "loader.is_static_padding": "padding",
    "loader.pad": "padding",
    "loader.grouped_pad": "padding",
    "loader.dynamic_pad": "padding",
    "loader.doubled_growth": "padding",
    "loader.storage": "storage of the data",
    "loader.read_bytes": "storage of the data",
    "loader.": "data loading",
    "step.": "step times",
    "run.planned": "length of the run",
    "run.num_planned": "length of the run",
    "run.autocast": "precision",
    "run.grad_scaler": "precision",
    "run.legacy_amp": "precision",
    "run.clips": "precision",
    "run.compiled": "compilation",
    "train.precision": "precision",
    "train.matmul_precision": "precision",
    "train.compile": "compilation",
    "train.": "training settings",
    "model.attention": "attention",
    "model.supports_sdpa": "attention",
    "model.outputs_attentions": "attention",
    "model.": "model",
    "optimizer.": "optimizer",
    "logging.": "logging",
    "code.": "the script's files",
    "config.": "the script's files",
    "arguments.": "the script's files",
    "ddp.": "the script's files",
    "fsdp.": "the script's files",
    "zero.": "the script's files",
}
"""What a missing fact would have shown, by the start of its name; the first start that fits counts."""

_REST = "how the job is set up"
"""What any other fact would have shown."""


def lines(report: Report, width: int) -> list[Line]:
    """Up to three paragraphs."""
    found = report.evaluation
    return [
        *paragraph("Already right", ", ".join(remarks(RIGHT, report.evidence, found)), width),
        *paragraph("Would not help", ", ".join(remarks(USELESS, report.evidence, found)), width),
        *paragraph("Not looked at", "; ".join(not_looked_at(found.skipped, report)), width),
    ]


def remarks(table: Sequence[Remark], evidence: Evidence, evaluation: Evaluation) -> list[str]:
    """The remarks that may be made, each once; a loader that does not feed training is passed over."""
    said = (text for remark in table for text in _said(remark, evidence, evaluation))
    return list(dict.fromkeys(said))


def _said(remark: Remark, evidence: Evidence, evaluation: Evaluation) -> Iterator[str]:
    fired = {each.subject for each in evaluation.findings if each.rule.id in remark.rules}
    passed = (each.subject for each in evaluation.passed if each.rule.id in remark.rules)
    for subject in passed:
        value = evidence.lookup(subject, remark.fact)
        if value is None or subject in fired or _is_pointless(remark, subject, evidence):
            continue
        if remark.holds(value):
            share = percent(value) if isinstance(value, float) else ""
            kind = evidence.lookup(subject, "optimizer.type") or "optimizer"
            yield remark.words.format(value=value, share=share, type=kind)


def _is_pointless(remark: Remark, subject: str, evidence: Evidence) -> bool:
    if evidence.lookup(subject, "loader.is_train") is False:
        return True
    return bool(remark.unless) and evidence.lookup(subject, remark.unless) is True


def not_looked_at(skipped: Sequence[Skipped], report: Report) -> list[str]:
    """One phrase per topic: "communication (one process)", "memory (too little seen for ME001, ME005)".

    The facts that were missing are in the JSON report, by name.
    """
    rules: dict[str, dict[str, None]] = {}
    for each in skipped:
        rules.setdefault(topic_of(each.needs[0]), {})[each.rule.id] = None
    return [
        f"{topic} ({_reason(topic, report) or f'too little seen for {_some(list(ids))}'})"
        for topic, ids in rules.items()
    ]


def topic_of(fact: str) -> str:
    """What a fact or setting is about, in plain words."""
    return next((topic for start, topic in _TOPICS.items() if fact.startswith(start)), _REST)


def _reason(topic: str, report: Report) -> str:
    """Why a topic could not be looked at, where the facts say it; "" leaves the rules that wanted it."""
    known = report.evidence
    reasons = {
        "communication": "one process" if report.run.num_processes == 1 else "",
        "device kernels": "CPU run" if known.lookup(RUN, "device.type") == "cpu" else "",
        "GPU state": "no GPU" if known.lookup(RUN, "machine.num_gpus") == 0 else "",
        "length of the run": "not all of it was timed" if report.run.planned_steps else "the script does not tell",
        "saves": "" if known.lookup(RUN, "checkpoint.cost_share") is not None else "interval not seen",
        "evaluation": "none seen" if known.lookup(RUN, "evaluation.num_seen") == 0 else "",
        "data loading": "" if known.subjects("loader") else "no DataLoader",
        "the script's files": "they do not tell",
        "padding": "the batches do not tell" if _has_no_lengths(known) else "",
    }
    return reasons.get(topic, "")


def _has_no_lengths(evidence: Evidence) -> bool:
    return all(evidence.lookup(each, "loader.num_lengths") is None for each in evidence.subjects("loader"))


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + rest
