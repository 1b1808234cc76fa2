"""What may be claimed of a gain: its basis, several gains together, and the words for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from autotune.model.evidence import RUN
from autotune.model.finding import Basis, Gain, Recommendation, speedup_without
from autotune.model.report import STEPS_WITHOUT_LENGTH, Report, Step
from autotune.model.rule import Severity
from autotune.report.units import duration

MIN_STEPS = 10
"""Fewer measured steps than this make no gain "measured": their mean is not known well enough."""

NO_BOUND = 0.99 * speedup_without(1.0)
"""Bounds that add up to a whole step bound nothing."""

FAR_ABOVE = 4.0
"""An upper end that many times the gain itself comes of intervals that add up to a whole step, and bounds nothing."""

NEXT_TO_NOTHING = 0.002
"""Of the step."""

LEAST_S = 0.05
"""Seconds: `duration` has no number for less."""

_WEAKEST_LAST: tuple[Basis, ...] = ("measured", "modelled", "profiled", "bound")


def ready_to_apply(report: Report) -> tuple[Recommendation, ...]:
    """The recommendations that need no decision: edits that leave training unchanged and cost nothing."""
    return tuple(each for each in report.recommendations if each.is_free)


def certain(report: Report) -> tuple[Recommendation, ...]:
    """Of those that need no decision, what surely saves time (no upper bound, and not where it may save nothing), and
    what cures a fault."""
    return tuple(each for each in ready_to_apply(report) if _is_cure(each) or _is_certain(each.after or each.gain))


def _is_cure(each: Recommendation) -> bool:
    """Whether it repairs a fault, such as a run that ended for want of memory."""
    return each.gain is None and any(one.rule.severity is Severity.CRITICAL for one in each.findings)


def uncertain(report: Report) -> tuple[Recommendation, ...]:
    """The others of them: applying them is safe, and nobody knows whether they save time."""
    sure = certain(report)
    return tuple(each for each in ready_to_apply(report) if each not in sure)


def _is_certain(gain: Gain | None) -> bool:
    if gain is None or gain.basis == "bound":
        return False
    # What is saved outside of the steps (start-up) is known in seconds alone.
    return gain.low > 1 or (gain.share <= 0 and gain.saved_s is not None and gain.saved_s > 0)


def decisions(report: Report) -> tuple[Recommendation, ...]:
    """The recommendations that the reader has to decide on: they change training, cost something, or are no edits."""
    return tuple(each for each in report.recommendations if not each.is_free and not each.first.rule.is_question)


def questions(report: Report) -> tuple[Recommendation, ...]:
    """What is asked about and not claimed."""
    return tuple(each for each in report.recommendations if each.first.rule.is_question)


def basis(gain: Gain, step: Step | None) -> Basis:
    """The basis that may be claimed: measured only with at least MIN_STEPS steps in the window."""
    if gain.basis == "measured" and (step is None or step.steps < MIN_STEPS):
        return "modelled"
    return gain.basis


def additional_gain(recommendation: Recommendation) -> Gain | None:
    """What it adds to the numbers before it, or None; a gain by itself counts for the first number only."""
    return recommendation.after or (recommendation.gain if recommendation.number == 1 else None)


def saves_nothing(recommendation: Recommendation) -> bool:
    """Whether those before it leave next to nothing for it to save; not where its gain is unknown."""
    gain = additional_gain(recommendation)
    return gain is not None and gain.share < NEXT_TO_NOTHING


def combine(recommendations: Sequence[Recommendation]) -> Gain | None:
    """The gain of doing all of them: what each removes of today's step is summed; with the weakest basis of them."""
    gains = [gain for gain in map(additional_gain, recommendations) if gain is not None]
    if not gains:
        return None
    seconds = [gain.saved_s for gain in gains if gain.saved_s is not None]
    return Gain(
        speedup=_speedup_of_shares(gain.speedup for gain in gains),
        low=_speedup_of_shares(gain.low for gain in gains),
        high=_speedup_of_shares(gain.high for gain in gains),
        basis=max((gain.basis for gain in gains), key=_WEAKEST_LAST.index),
        saved_s=sum(seconds) if len(seconds) == len(gains) else None,
    )


def _speedup_of_shares(speedups: Iterable[float]) -> float:
    """The speedup when the shares that each speedup removes are all gone."""
    return speedup_without(sum(1 - 1 / each for each in speedups))


def speedup(gain: Gain, step: Step | None) -> str:
    """ "1.26x (1.24-1.28) measured", "1.77x (1.60-1.90) modelled", "at most 1.38x"."""
    return format_gain(replace(gain, basis=basis(gain, step)))


def format_gain(gain: Gain) -> str:
    """The same of a gain whose basis may be claimed."""
    if gain.basis == "bound":
        return f"at most {gain.speedup:.2f}x" if gain.speedup < NO_BOUND else "no bound known"
    return f"{gain.speedup:.2f}x ({interval(gain)}) {gain.basis}"


def format_interval(gain: Gain) -> str:
    """ "1.40x (1.20 to 1.60)", "at most 1.60x", and where a part of it is a bound "1.20x to at most 1.60x"."""
    if gain.basis != "bound":
        return f"{gain.speedup:.2f}x ({interval(gain, ' to ')})"
    return f"{gain.low:.2f}x to at most {gain.high:.2f}x" if gain.low > 1 else f"at most {gain.high:.2f}x"


def interval(gain: Gain, to: str = "-") -> str:
    """ "1.24-1.28"; "at least 1.34x" where the upper end is so far off that nothing is known of it."""
    if gain.high > FAR_ABOVE * gain.speedup:
        return f"at least {gain.low:.2f}x" if gain.low > 1 else "may also be slower"
    return f"{gain.low:.2f}{to}{gain.high:.2f}"


def saved_time(gain: Gain, report: Report) -> str:
    """Over the planned run or per 1,000 steps: "saves 15 min to 21 min", "saves at most 40 s per 1,000 steps"."""
    seconds, unit = saved_s(gain, report), "" if is_whole_run(report) else _PER
    if seconds is None:
        return ""
    if 0 <= gain.share < NEXT_TO_NOTHING:
        return "saves nothing more"
    if seconds < 0:
        return f"costs {duration(-seconds)}{unit}"
    if gain.basis == "bound":
        return f"saves at most {duration(seconds)}{unit}"
    return f"saves {_saved_range(gain, seconds)}{unit}"


def _saved_range(gain: Gain, seconds: float) -> str:
    """ "17 s to 1 min 2 s", "up to 1 min 2 s" where it may also save next to nothing.

    The mean where nothing is known of the upper end, or where what it saves is not in the steps."""
    if gain.high > FAR_ABOVE * gain.speedup or gain.share <= 0:
        return duration(seconds)
    low, high = ((1 - 1 / max(1.0, end)) * seconds / gain.share for end in (gain.low, gain.high))
    if duration(low) == duration(high):
        return duration(high)
    return f"{duration(low)} to {duration(high)}" if low >= LEAST_S else f"up to {duration(high)}"


_PER = f" per {STEPS_WITHOUT_LENGTH:,} steps"


def counted_steps(report: Report) -> int:
    """The steps that times are given for: all that are planned, or 1,000 where their time is unknown."""
    planned = report.run.planned_steps
    return planned if planned and is_whole_run(report) else STEPS_WITHOUT_LENGTH


def is_whole_run(report: Report) -> bool:
    """Whether times are of the whole run: its length is known, and nothing of what comes at intervals is half counted.

    What was not timed and is in none of the measured steps is named by `excluded_phases`.
    """
    if not report.run.planned_steps or report.step is None:
        return False
    seen = [phase for phase in ("checkpoint", "evaluation") if report.step.breakdown_ms.get(phase)]
    is_known = all(report.evidence.lookup(RUN, f"{phase}.cost_share") is not None for phase in seen)
    return report.planned_s is not None or (bool(excluded_phases(report)) and is_known)


def excluded_phases(report: Report) -> list[str]:
    """What these times leave out: it comes within the run, none was seen, and how long one takes is not known."""
    found = []
    for what, (interval_steps, one, seen) in _AT_INTERVALS.items():
        steps = report.evidence.lookup(RUN, interval_steps)
        is_within = isinstance(steps, int) and (report.run.planned_steps or steps) >= steps
        if is_within and report.evidence.lookup(RUN, one) is None and not report.evidence.lookup(RUN, seen):
            found.append(what)
    return found


_AT_INTERVALS = {
    "saves": ("checkpoint.interval_steps", "checkpoint.save_s", "checkpoint.num_seen"),
    "evaluations": ("evaluation.interval_steps", "evaluation.eval_s", "evaluation.num_seen"),
}
"""What comes at an interval, the time that one takes, and how many were seen."""


def saved_s(gain: Gain, report: Report) -> float | None:
    """Seconds saved over the planned run, or over 1,000 steps of an unknown one; None without a step."""
    if report.step is None:
        return None
    if report.run.planned_steps and gain.saved_s is not None:
        return gain.saved_s * counted_steps(report) / report.run.planned_steps
    return gain.share * report.step.mean_ms / 1000 * counted_steps(report)
