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

FILES = "settings and code"

_TOPICS = {
    "ranks.": "communication",
    "device.": "device kernels",
    "calls.user_sync": "waiting for the device",
    "calls.": "calls that cost time",
    "machine.gpu": "GPU state",
    "machine.num_gpus": "GPU state",
    "machine.num_foreign": "GPU state",
    "machine.driver": "GPU state",
    "machine.shm": "shared memory",
    "machine.": "CPUs of the machine",
    "software.torch_cuda": "CUDA version",
    "software.": "installed versions",
    "env.": "environment variables",
    "memory.": "memory",
    "replay.threads": "numbers of threads",
    "replay.best_threads": "numbers of threads",
    "replay.mo": "numbers of threads",
    "replay.determinism": "deterministic algorithms",
    "replay.": "steps without loading",
    "batch_curve.": "other batch sizes",
    "checkpoint.bytes": "size of checkpoints",
    "checkpoint.storage": "storage of checkpoints",
    "checkpoint.": "saves",
    "evaluation.": "evaluation",
    "loader.len": "lengths",
    "loader.at_limit": "lengths",
    "loader.shorter": "lengths",
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
    "loader.seen_on": "storage of the data",
    "loader.read_bytes": "storage of the data",
    "loader.tokenize": "what batches repeat",
    "loader.decode": "what batches repeat",
    "loader.constant": "what batches repeat",
    "loader.": "data loading",
    "step.logging": "logging",
    "step.own_logging": "logging",
    "step.": "step times",
    "run.planned": "length of the run",
    "run.num_planned": "length of the run",
    "run.step": "length of the run",
    "run.autocast": "precision",
    "run.grad_scaler": "precision",
    "run.legacy_amp": "precision",
    "run.clips": "precision",
    "run.compiled": "compilation",
    "run.num_compiling": "compilation",
    "run.num_recompiles": "compilation",
    "run.num_graph": "compilation",
    "train.precision": "precision",
    "train.matmul_precision": "precision",
    "train.compile": "compilation",
    "model.attention": "attention",
    "model.supports_sdpa": "attention",
    "model.outputs_attentions": "attention",
    "model.load_in": "quantisation",
    "model.bnb": "quantisation",
    "model.device_map": FILES,
    "model.": "model",
    "optimizer.": "optimizer",
    "logging.": "logging",
    "train.": FILES,
    "code.": FILES,
    "config.": FILES,
    "arguments.": FILES,
    "ddp.": FILES,
    "fsdp.": FILES,
    "zero.": FILES,
}
"""What a missing fact would have shown, by the start of its name; the first start that fits counts."""

_REST = "how the job is set up"
"""What any other fact would have shown."""

_LACKS = {
    "communication": "its collectives were not timed",
    "device kernels": "none was recorded",
    "waiting for the device": "no read of it was timed",
    "calls that cost time": "none was timed",
    "GPU state": "no driver tells it",
    "shared memory": "its size is not known",
    "CPUs of the machine": "they were not counted",
    "CUDA version": "torch is built without CUDA",
    "installed versions": "a package is not installed, or its version is not known",
    "environment variables": "they were not recorded",
    "memory": "its peak or its limit is not known",
    "size of checkpoints": "it was not measured",
    "storage of checkpoints": "no file was seen",
    "saves": "fewer than two were seen",
    "evaluation": "fewer than two were seen",
    "lengths": "the batches do not show them",
    "padding": "the batches do not show it",
    "storage of the data": "where it lies is not known",
    "data loading": "too few batches were seen",
    "step times": "no step was measured",
    "length of the run": "the script does not tell",
    "precision": "no autocast and no dtype was seen",
    "compilation": "the model is not compiled",
    "attention": "the model does not name its kind",
    "quantisation": "no model in 4 bits was seen",
    "model": "it does not tell",
    "optimizer": "it does not tell",
    "logging": "none was seen",
    FILES: "the files that were read do not show it",
    _REST: "the run does not tell",
}
"""The fact that is missing for a topic, in words, where nothing more is known of the reason."""


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
    """The topics of the rules that lacked a fact, by reason: "communication (one process)", "lengths, padding (...)".

    The rules and the facts that were missing are in the JSON report, by name.
    """
    by_reason: dict[str, dict[str, None]] = {}
    for topic in dict.fromkeys(_topic(each) for each in skipped):
        by_reason.setdefault(_reason(topic, report), {})[topic] = None
    return [f"{', '.join(topics)} ({reason})" for reason, topics in by_reason.items()]


def _topic(skipped: Skipped) -> str:
    """That of the first missing fact that a run could have shown: what files do not say is seldom what is missing."""
    topics = [topic_of(each) for each in skipped.needs]
    return next((topic for topic in topics if topic != FILES), FILES)


def topic_of(fact: str) -> str:
    """What a fact or setting is about, in plain words."""
    return next((topic for start, topic in _TOPICS.items() if fact.startswith(start)), _REST)


def _reason(topic: str, report: Report) -> str:
    """Why a topic could not be looked at: the circumstance of this run, else the fact that is missing."""
    known = report.evidence
    is_cpu = known.lookup(RUN, "device.type") == "cpu"
    untried = _untried(report)
    reasons = {
        "communication": "one process" if report.run.num_processes == 1 else "",
        "device kernels": "CPU run" if is_cpu else "",
        "waiting for the device": "CPU run" if is_cpu else "",
        "GPU state": "no GPU" if known.lookup(RUN, "machine.num_gpus") == 0 else "CPU run" if is_cpu else "",
        "length of the run": "not all of it was timed" if report.run.planned_steps else "",
        "saves": "none seen" if known.lookup(RUN, "checkpoint.num_seen") == 0 else "",
        "evaluation": "none seen" if known.lookup(RUN, "evaluation.num_seen") == 0 else "",
        "data loading": "" if known.subjects("loader") else "no DataLoader",
        "what batches repeat": untried,
        "steps without loading": untried,
        "numbers of threads": untried,
        "deterministic algorithms": untried,
        "other batch sizes": untried,
    }
    return reasons.get(topic) or _LACKS[topic]


def _untried(report: Report) -> str:
    """Why nothing was tried after the window."""
    if report.run.num_processes > 1:
        return "with several processes nothing is tried after the window"
    if report.run.kept_going:
        return "training went on after the window"
    if report.run.outcome == "ended_early":
        return "the script ended before it could be tried"
    if report.run.replayed:
        return "the time for trying more after the window was over"
    return "it was not tried after the window"
