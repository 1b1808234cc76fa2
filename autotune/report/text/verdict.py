"""The verdict: what bounds the step, with its number, and what to do first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from autotune.model.evidence import RUN
from autotune.model.report import Report, Step
from autotune.report.bound import COMPUTE, bound
from autotune.report.gains import decisions, ready_to_apply, speedup
from autotune.report.labels import path, words
from autotune.report.text import data_wait_reason
from autotune.report.text.hot_lines import line_place
from autotune.report.text.layout import StyledLine, wrap
from autotune.report.units import number, percent

_SENTENCES = {
    "data_wait": "Input-bound: {share} of each step is spent waiting for data.",
    "compute": "Compute-bound: {share} of each step is {compute}.",
    "checkpoint": "Checkpoint-bound: {share} of each step is spent on saves.",
    "evaluation": "Evaluation-bound: {share} of each step is spent on evaluation.",
    "h2d": "Copies to the device take the largest part of each step: {share}.",
    "logging": "Logging takes the largest part of each step: {share}.",
    "rank_wait": "Rank-bound: for {share} of each step this rank waits for a slower one.",
    "communication": "Communication-bound: {share} of each step is spent in collectives that the script calls.",
    "other": "The largest part of each step, {share}, is outside the known phases{frame}.",
}
_OF_DEVICE = {
    "compute": "Compute-bound: for {share} of each step the device computes.",
    "communication": "Communication-bound: for {share} of each step the device does nothing but communicate.",
    "data_wait": "Input-bound: for {share} of each step the device is idle, because the host waits for data.",
    "launch": "Host-bound: for {share} of each step the device is idle until the host launches its next kernel.",
    "host": "Host-bound: for {share} of each step the device is idle, because the host does work of its own.",
    "sync": "Host-bound: for {share} of each step the device is idle, because the host had waited for it.",
    "device": "For {share} of each step the device goes from one queued kernel to the next: they are very short.",
    "copy": "Copies take the largest part of each step: {share}.",
    "save": "Checkpoint-bound: for {share} of each step the device is idle during saves.",
    "evaluation": "Evaluation-bound: for {share} of each step the device is idle during evaluation.",
}
"""Of traces."""

MOST_FAMILIES = 3
"""Named in the verdict."""

LEAST_AVERAGING = 0.05
"""Of a step."""

_INPUT = "Input-bound: data loading costs {share} of each step: {wait} is data wait, the rest slows training down."
_HOST = "Host-bound: the device is busy {share} of the time and waits for the host between kernels."


def lines(report: Report, width: int) -> list[StyledLine]:
    """One or two sentences; nothing when there is no step (the failure section says what happened)."""
    if report.step is None:
        return []
    return wrap(
        " ".join(
            part
            for part in (_lead(report), data_wait_reason.sentence(report), _question(report), _first(report))
            if part
        ),
        width,
    )


def _lead(report: Report) -> str:
    bound = _bound(report, report.step) if report.step else ""
    if any(not finding.rule.is_question for finding in report.evaluation.findings):
        return bound
    if report.recommendations:
        return f"No rule fired, but one line is worth a look: {report.recommendations[0].first.message}. {bound}"
    passed = {each.rule.id: each.rule.family for each in report.evaluation.passed}
    if passed:
        noun = "rule" if len(passed) == 1 else "rules"
        judged = f"{len(passed)} {noun} on {_named(passed.values())}"
        return f"Nothing to report in what was judged ({judged}). {bound} {_hottest(report)}"
    num_skipped = len({each.rule.id for each in report.evaluation.skipped})
    return f"Nothing to report, but nothing could be decided: {num_skipped} rules lack a fact. {bound}"


def _named(families: Iterable[str]) -> str:
    """What most of the rules are about: "dataloader, precision, memory and 4 more"."""
    names = [name for name, _ in Counter(families).most_common()]
    more = len(names) - MOST_FAMILIES
    return _listed([*names[:MOST_FAMILIES], f"{more} more"] if more > 0 else names)


def _listed(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _question(report: Report) -> str:
    """What is asked about, where it may save more than anything that is claimed."""
    findings = report.evaluation.findings
    is_beside = bool(findings) and findings[0].rule.is_question and not all(one.rule.is_question for one in findings)
    return f"Worth a look: {findings[0].message}." if is_beside else ""


def _bound(report: Report, step: Step) -> str:
    name, share = bound(report, step)
    if report.run.traces:
        return _OF_DEVICE[name].format(share=percent(share))
    wait = (step.breakdown_ms.get("data_wait") or 0.0) / step.mean_ms
    if name == "data_wait" and percent(wait) != percent(share):
        return _INPUT.format(share=percent(share), wait=percent(wait))
    busy = report.evidence.lookup(RUN, "device.busy_share")
    if name == "compute" and isinstance(busy, float) and busy < 0.5:
        return _HOST.format(share=percent(busy))
    compute = _compute(step) + _averaging(report, step)
    return _SENTENCES[name].format(share=percent(share), frame=_frame(report, step), compute=compute)


def _averaging(report: Report, step: Step) -> str:
    """What of backward is DDP's averaging, where that is a part to speak of: it is no computing."""
    ms = report.ranks[0].averaging_ms if report.ranks else None
    is_part = ms is not None and ms >= LEAST_AVERAGING * step.mean_ms
    return f" (averaging gradients over processes: {percent(ms / step.mean_ms)} of the step)" if is_part and ms else ""


def _hottest(report: Report) -> str:
    """The line that costs most, where one was seen; nothing is wrong with it for all that is known."""
    table = report.step.lines if report.step is not None else None
    line = table.hottest if table is not None else None
    if line is None:
        return ""
    by = line.repeated_by
    led = (
        f"; {path(by.file, report.run.folder)}:{by.line} leads to it {number(by.runs)} times for each batch"
        if by
        else ""
    )
    of_line = f"the most expensive line, {line_place(line, report)}, takes {percent(line.share)} of each step{led}."
    function = table.function if table is not None else None
    if function is None:
        return of_line[0].upper() + of_line[1:]
    at = f"{path(function.file, report.run.folder)}:{function.line}"
    return (
        f"The most expensive function beside the model, {function.function} ({at}), takes "
        f"{percent(function.share)} of each step; {of_line}"
    )


def _compute(step: Step) -> str:
    """The compute phases that were seen: "forward, backward and optimizer"."""
    seen = [phase for phase in COMPUTE if step.breakdown_ms.get(phase)]
    return _listed(seen) or "compute"


def _frame(report: Report, step: Step) -> str:
    if not step.other:
        return ""
    first = max(step.other, key=lambda frame: frame.share)
    return f"; {percent(first.share)} is {first.function} in {path(first.file, report.run.folder)}:{first.line}"


def _first(report: Report) -> str:
    """What saves most, whoever decides on it: the first finding's recommendation. Where the list of actions begins with
    another one, which needs no decision, it is named by its number there."""
    if not report.recommendations:
        return ""
    findings = report.evaluation.findings or (report.recommendations[0].first,)
    found = next((each for each in findings if not each.rule.is_question), None)
    if found is None:
        return ""
    first = next((each for each in report.recommendations if found in each.findings), report.recommendations[0])
    gain = first.gain
    listed = next(iter((*ready_to_apply(report), *decisions(report))), first)
    lead = "First:" if first is listed or gain is None else f"Largest gain: {first.number},"
    text = f"{lead} {words(first.first.rule)} ({first.first.rule.id})"
    return f"{text}, {speedup(gain, report.step)}." if gain else f"{text}."
