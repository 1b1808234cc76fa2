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
    "machine.gpu": "GPU state",
    "memory.": "memory",
    "replay.": "steps without loading",
    "batch_curve.": "other batch sizes",
    "checkpoint.": "saves",
    "evaluation.": "evaluation",
    "loader.len": "lengths",
    "loader.at_limit": "lengths",
    "data.max_length": "lengths",
    "loader.num_lengths": "padding",
    "loader.is_static_padding": "padding",
    "loader.pad": "padding",
    "loader.grouped_pad": "padding",
    "loader.dynamic_pad": "padding",
    "loader.storage": "storage of the data",
    "loader.read_bytes": "storage of the data",
    "loader.": "data loading",
    "step.": "step times",
    "run.planned": "length of the run",
    "run.num_planned": "length of the run",
}
"""What a missing fact would have shown, by the start of its name; the first start that fits counts."""


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
    """One phrase per topic: "communication (one process)", "saves (CK001 needs checkpoint.save_s)"."""
    needs: dict[str, dict[str, None]] = {}
    rules: dict[str, dict[str, None]] = {}
    for each in skipped:
        topic = _topic(each.needs[0])
        needs.setdefault(topic, {}).update(dict.fromkeys(each.needs))
        rules.setdefault(topic, {})[each.rule.id] = None
    return [_phrase(topic, list(needs[topic]), list(rules[topic]), report) for topic in needs]


def _topic(fact: str) -> str:
    return next((topic for start, topic in _TOPICS.items() if fact.startswith(start)), fact)


def _phrase(topic: str, needs: Sequence[str], rules: Sequence[str], report: Report) -> str:
    verb = "needs" if len(rules) == 1 else "need"
    if topic in needs:
        return f"what {_some(rules)} {verb}: {topic}"
    return f"{topic} ({_reason(topic, report) or f'{_some(rules)} {verb} {_some(needs)}'})"


def _reason(topic: str, report: Report) -> str:
    """Why a topic could not be looked at, where the facts say it; "" leaves the list of rules and needs."""
    known = report.evidence
    reasons = {
        "communication": "one process" if report.run.num_processes == 1 else "",
        "device kernels": "CPU run" if known.lookup(RUN, "device.type") == "cpu" else "",
        "GPU state": "no GPU" if known.lookup(RUN, "machine.num_gpus") == 0 else "",
        "length of the run": "the script does not tell",
        "saves": "" if known.lookup(RUN, "checkpoint.cost_share") is not None else "interval not seen",
        "evaluation": "none seen" if known.lookup(RUN, "evaluation.num_seen") == 0 else "",
        "data loading": "" if known.subjects("loader") else "no DataLoader",
        "padding": "the batches do not tell" if _has_no_lengths(known) else "",
    }
    return reasons.get(topic, "")


def _has_no_lengths(evidence: Evidence) -> bool:
    return all(evidence.lookup(each, "loader.num_lengths") is None for each in evidence.subjects("loader"))


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + rest
