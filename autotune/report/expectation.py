"""What the user's own progress bar should show after each group of changes, and when to look again."""

from __future__ import annotations

from msgspec import Struct

from autotune.model.finding import MOST_REMOVED, Basis, Gain, Recommendation
from autotune.model.report import Report, Step
from autotune.report import gains, progress_bar
from autotune.report.labels import phases
from autotune.report.stages import Stage, stages

STEPS = 50
"""After that many steps a bar shows a mean: its first ones hold start-up and warm-up."""

MARGIN = 0.05
"""Of the expected step, for what a bar's own mean varies by from one run to the next."""

OTHER_STEP = ("loader.batch_size", "train.accumulation_steps", "data.packing", "data.max_length")
"""Settings after whose change an iteration, or a step, is not the work that it was."""


class Expectation(Struct, frozen=True):
    """An iteration in ms after the changes `numbers` (all of the stages before it included).

    It lies within `low_ms` and `high_ms`; beyond `limit_ms` the changes did not do what was expected. `limit_ms` is
    None where nothing is promised, and `why_not` says why.
    """

    numbers: tuple[int, ...]
    now_ms: float
    expected_ms: float
    low_ms: float
    high_ms: float
    basis: Basis
    limit_ms: float | None
    why_not: str
    now: str
    expected: str
    """As the bar writes it, as `now` and `limit`."""

    limit: str = ""


def expectations(report: Report) -> tuple[Expectation, ...]:
    """One for each group of changes whose gain is known."""
    step = report.step
    if step is None or report.run.traces or progress_bar.iteration_ms(step) <= 0:
        return ()
    return tuple(_expectation(stage, stage.gain, report, step) for stage in stages(report) if stage.gain is not None)


def head(expected: Expectation) -> str:
    """ "Expect after 1, 2"."""
    return f"Expect after {', '.join(map(str, expected.numbers))}"


def sentence(expected: Expectation) -> str:
    """ "2.58 s/it in your bar, now 3.33 s/it; slower than 2.71 s/it after 50 steps: run autotune diagnose again"."""
    if expected.limit_ms is None:
        best = "at best " if expected.basis == "bound" else ""
        return f"{best}{expected.expected}, now {expected.now}; no promise: {expected.why_not}"
    again = f"slower than {expected.limit} after {STEPS} steps: run autotune diagnose again"
    return f"{expected.expected}, now {expected.now}; {again}"


def _expectation(stage: Stage, gain: Gain, report: Report, step: Step) -> Expectation:
    now_ms = progress_bar.iteration_ms(step)
    expected_ms, high_ms, low_ms = (_left_ms(stage, end, now_ms, step) for end in ("speedup", "low", "high"))
    limit_ms = max(high_ms, expected_ms * (1 + MARGIN))
    basis = gains.basis(gain, step)
    why_not = _why_no_promise(stage, basis, limit_ms, now_ms)
    return Expectation(
        numbers=tuple(each.number for each in stage.made),
        now_ms=now_ms,
        expected_ms=expected_ms,
        low_ms=low_ms,
        high_ms=high_ms,
        basis=basis,
        limit_ms=None if why_not else limit_ms,
        why_not=why_not,
        now=_short(now_ms, report),
        expected=progress_bar.written(expected_ms, report),
        limit="" if why_not else _short(limit_ms, report),
    )


def _left_ms(stage: Stage, end: str, now_ms: float, step: Step) -> float:
    """What is left of an iteration when all of the stage is done; what only shortens saves does not shorten it."""
    known = [(each, gain) for each in stage.made if (gain := gains.additional_gain(each)) is not None]
    removed = sum((1 - 1 / getattr(gain, end)) * step.mean_ms for each, gain in known if _is_within(each))
    return float(max(now_ms - removed, now_ms * (1 - MOST_REMOVED)))


def _is_within(recommendation: Recommendation) -> bool:
    """Whether it shortens iterations, and not saves and evaluations between them."""
    touched = {phase for finding in recommendation.findings for phase in phases(finding.rule)}
    return not touched or not touched <= set(progress_bar.BETWEEN)


def _why_no_promise(stage: Stage, basis: Basis, limit_ms: float, now_ms: float) -> str:
    changed = [one.setting for each in stage.made for one in each.changes if one.setting in OTHER_STEP]
    if changed:
        return f"an iteration is other work after the change of {changed[0]}"
    if basis == "bound":
        return "the gain is an upper bound"
    if limit_ms >= now_ms * (1 - MARGIN):
        return "the expected range reaches up to what it is now"
    return ""


def _short(ms: float, report: Report) -> str:
    return progress_bar.written(ms, report).removesuffix(" in your bar").removesuffix(" per optimizer step")
