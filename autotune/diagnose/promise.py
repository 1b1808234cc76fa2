"""Whether a running job is as fast as was expected of it after the changes."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.model.evidence import Evidence
from autotune.model.outlook import ProgressLine, Promise, PromiseResult
from autotune.model.report import Report
from autotune.predict.job_position import DIFFERS, shown_step_s
from autotune.report.expectation import MARGIN, Expectation, expectations

FOREIGN = 3.0
"""How many times faster than expected a step is of another run, or of a bar that counts something else."""


def promise(report: Report, at: ProgressLine) -> Promise | None:
    """What `at` says of the last expectation that it meets, else of the first; None where nothing was promised."""
    promised = _promised(report)
    if not promised:
        return None
    shown_ms = _shown_ms(at, report.evidence)
    met = [one for one in promised if shown_ms is not None and shown_ms <= (one.limit_ms or 0.0)]
    return _judged(met[-1] if met else promised[0], shown_ms, report)


def promise_of(numbers: Sequence[int], report: Report, at: ProgressLine) -> tuple[Promise, Expectation] | None:
    """What `at` says of a job with exactly the changes `numbers`, with what was expected of it; None where nothing was
    promised of these."""
    shown_ms = _shown_ms(at, report.evidence)
    of = next((one for one in _promised(report) if set(one.numbers) == set(numbers)), None)
    return None if of is None else (_judged(of, shown_ms, report), of)


def _promised(report: Report) -> list[Expectation]:
    return [one for one in expectations(report) if one.limit_ms is not None]


def _judged(of: Expectation, shown_ms: float | None, report: Report) -> Promise:
    return Promise(
        result=_result(of, shown_ms, _paused_ms(report)),
        numbers=of.numbers,
        shown_ms=shown_ms,
        expected_ms=of.expected_ms,
        limit_ms=of.limit_ms or 0.0,
        now_ms=of.now_ms,
    )


def _shown_ms(at: ProgressLine, evidence: Evidence) -> float | None:
    seconds = shown_step_s(at, evidence)
    return None if seconds is None else seconds * 1000


def _paused_ms(report: Report) -> float:
    """What saves and evaluations add to a step: an expectation leaves them out, the rate in a line may not."""
    parts = report.step.breakdown_ms if report.step is not None else {}
    return sum(parts.get(phase) or 0.0 for phase in ("checkpoint", "evaluation"))


def _result(of: Expectation, shown_ms: float | None, paused_ms: float) -> PromiseResult:
    if shown_ms is None or shown_ms * FOREIGN < of.expected_ms or shown_ms > of.now_ms * FOREIGN:
        return "unknown"
    if shown_ms <= (of.limit_ms or 0.0):
        return "kept"
    if shown_ms <= (of.limit_ms or 0.0) + paused_ms:
        return "unknown"
    is_as_before = of.now_ms * (1 - MARGIN) <= shown_ms <= of.now_ms * DIFFERS + paused_ms
    return "as_before" if is_as_before else "broken"
