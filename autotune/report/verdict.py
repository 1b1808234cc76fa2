"""The verdict: what bounds the step, with its number, and what to do first."""

from __future__ import annotations

from autotune.model.evidence import RUN
from autotune.model.report import Report, Step
from autotune.report.gains import marginal, speedup
from autotune.report.layout import Line, wrap
from autotune.report.names import path, words
from autotune.report.units import percent

_COMPUTE = ("forward", "recompute", "backward", "optimizer")
_PARTS = {
    "Input-bound: {share} of each step is spent waiting for data.": ("data_wait",),
    "Compute-bound: {share} of each step is {compute}.": _COMPUTE,
    "Checkpoint-bound: {share} of each step is saves.": ("checkpoint",),
    "Evaluation-bound: {share} of each step is evaluation.": ("evaluation",),
    "Copies to the device take the largest part of each step: {share}.": ("h2d",),
    "Logging takes the largest part of each step: {share}.": ("logging",),
    "The largest part of each step, {share}, is in no known phase{frame}.": ("other",),
}
_HOST = "Host-bound: the device is busy {share} of the time; it waits for the host between kernels."


def lines(report: Report, width: int) -> list[Line]:
    """One or two sentences; nothing when there is no step (the failure section says what happened)."""
    if report.step is None:
        return []
    return wrap(f"{_lead(report)} {_first(report)}", width)


def _lead(report: Report) -> str:
    bound = _bound(report, report.step) if report.step else ""
    if report.recommendations:
        return bound
    num_passed = len({each.rule.id for each in report.evaluation.passed})
    if num_passed:
        noun = "rule" if num_passed == 1 else "rules"
        return f"Nothing to report: {num_passed} {noun} looked at, none has anything to say. {bound}"
    num_skipped = len({each.rule.id for each in report.evaluation.skipped})
    return f"Nothing to report, but nothing was decided either: {num_skipped} rules lack a fact. {bound}"


def _bound(report: Report, step: Step) -> str:
    shares = {
        sentence: sum(step.breakdown_ms.get(phase) or 0.0 for phase in phases) / step.mean_ms
        for sentence, phases in _PARTS.items()
    }
    sentence = max(shares, key=lambda each: shares[each])
    busy = report.evidence.lookup(RUN, "device.busy_share")
    if _PARTS[sentence] == _COMPUTE and isinstance(busy, float) and busy < 0.5:
        return _HOST.format(share=percent(busy))
    return sentence.format(share=percent(shares[sentence]), frame=_frame(report, step), compute=_compute(step))


def _compute(step: Step) -> str:
    """The compute phases that were seen: "forward, backward and optimizer"."""
    seen = [phase for phase in _COMPUTE if step.breakdown_ms.get(phase)]
    return f"{', '.join(seen[:-1])} and {seen[-1]}" if len(seen) > 1 else "".join(seen) or "compute"


def _frame(report: Report, step: Step) -> str:
    if not step.other:
        return ""
    first = max(step.other, key=lambda frame: frame.share)
    return f"; {percent(first.share)} is {first.function} in {path(first.file, report.run.folder)}:{first.line}"


def _first(report: Report) -> str:
    if not report.recommendations:
        return ""
    first = report.recommendations[0]
    gain = marginal(first) or first.gain
    text = f"First: {words(first.first.rule)} ({first.first.rule.id})"
    return f"{text}, {speedup(gain, report.step)}." if gain else f"{text}."
