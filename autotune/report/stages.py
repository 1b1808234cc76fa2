"""The run as it is, after the changes that keep training the same, and after the reader's decisions as well."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from autotune.model.finding import MOST_REMOVED, Gain, Recommendation
from autotune.model.report import Report, Step
from autotune.report.gains import (
    additional_gain,
    basis,
    combine,
    counted_steps,
    decisions,
    excluded_phases,
    is_whole_run,
    ready_to_apply,
    saved_s,
    saves_nothing,
)

_UNVERIFIED = {
    "modelled": "modelled: computed from this window, unverified",
    "profiled": "profiled: computed from steps that a profiler slowed down, unverified",
}


class Stage(Struct, frozen=True):
    """The run in `seconds` once all of `made` is done, of which `added` came with this stage.

    `gain` is that of all of `made`; None of the run as it is.
    """

    seconds: float
    gain: Gain | None = None
    made: tuple[Recommendation, ...] = ()
    added: tuple[Recommendation, ...] = ()
    is_decision: bool = False

    @property
    def numbers(self) -> str:
        """Of what it added: "2, 3"; "2-7" of more than three."""
        numbers = [each.number for each in self.added]
        if len(numbers) > 3 and numbers == list(range(numbers[0], numbers[-1] + 1)):
            return f"{numbers[0]}-{numbers[-1]}"
        return ", ".join(map(str, numbers[:3])) + (" ..." if len(numbers) > 3 else "")


def stages(report: Report) -> tuple[Stage, ...]:
    """This run, with the unchanged group, with the decisions as well; nothing without a step.

    A recommendation whose gain is unknown, or that saves nothing after those before it, is in no stage.
    """
    if report.step is None:
        return ()
    ms = report.step.mean_ms if report.step.run_ms is None else report.step.run_ms
    seconds = counted_steps(report) * ms / 1000
    found = [Stage(seconds)]
    now, later = _with_gain(ready_to_apply(report)), _with_gain(decisions(report))
    if gain := combine(now):
        found.append(Stage(_left_s(seconds, gain, report), gain, now, now))
    if later and (gain := combine([*now, *later])):
        found.append(Stage(_left_s(seconds, gain, report), gain, (*now, *later), later, is_decision=True))
    return tuple(found)


def title(stage: Stage, report: Report) -> str:
    """ "this run, 7,800 steps", "+ 1 (training unchanged)", "+ 2, 3 (your decision)"."""
    if stage.gain is None:
        return f"{'this run' if is_whole_run(report) else 'now'}, {counted_steps(report):,} steps"
    return f"+ {stage.numbers} ({'your decision' if stage.is_decision else 'training unchanged'})"


def notes(found: Sequence[Stage], report: Report) -> list[str]:
    """What their times do not have, and what their gains rest on."""
    if report.step is None:
        return []
    why = _why_no_total(report, report.step)
    bases = {basis(stage.gain, report.step) for stage in found if stage.gain is not None}
    return [
        *([f"{why}: times are per 1,000 steps."] if why else []),
        *(f"Its {what} are not included: none was timed." for what in excluded_phases(report)),
        *(f"({words})" for name, words in _UNVERIFIED.items() if name in bases),
    ]


def _why_no_total(report: Report, step: Step) -> str:
    """What keeps the time of the whole run unknown; "" when it is known."""
    if step.run_ms is None and not excluded_phases(report):
        return "The interval or cost of saves or evaluations is unknown, and some of them fall into these steps"
    if is_whole_run(report):
        return ""
    planned = report.run.planned_steps
    return f"Not all of this run of {planned:,} steps was timed" if planned else "The length of the run is unknown"


def _left_s(seconds: float, gain: Gain, report: Report) -> float:
    """What is left of `seconds`: a sum of bounds may be more than there is."""
    return max(seconds * (1 - MOST_REMOVED), seconds - (saved_s(gain, report) or 0.0))


def _with_gain(recommendations: Sequence[Recommendation]) -> tuple[Recommendation, ...]:
    return tuple(each for each in recommendations if additional_gain(each) is not None and not saves_nothing(each))
