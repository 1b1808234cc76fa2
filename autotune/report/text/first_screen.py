"""What a reader sees first below the verdict: how fast it is now, and at most three things to do."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.model.evidence import RUN
from autotune.model.finding import Recommendation
from autotune.model.report import Report
from autotune.report import advice, efficiency, progress_bar
from autotune.report.gains import decisions, ready_to_apply, saves_nothing
from autotune.report.labels import place, words
from autotune.report.text.layout import StyledLine, paragraph, spread
from autotune.report.units import percent

MOST_ACTIONS = 3

MOST_PLACES = 2
"""Of the further edits of one action."""

WIDE = 0.1
"""Half of the mean step's interval, of the mean: from here on no figure on the first screen is better than a tenth."""


def numbers(report: Report, width: int) -> list[StyledLine]:
    """ "Now: 3.33 s/it in your bar, 9.2 samples/s, device busy 93 %"; nothing without a step.

    Where the mean step is known badly, how badly, and what helps.
    """
    step = report.step
    if step is None:
        return []
    ms = progress_bar.iteration_ms(step)
    bar = [progress_bar.written(ms, report)] if ms > 0 else []
    noise = report.evidence.lookup(RUN, "step.noise_share")
    doubt = []
    if isinstance(noise, float) and noise >= WIDE and not report.run.traces:
        doubt = [f"+-{percent(noise)} (better on an idle machine, or over more --steps)"]
    return paragraph("Now", ", ".join([*bar, *efficiency.parts(report), *doubt]), width)


def actions(report: Report, width: int) -> list[StyledLine]:
    """A line for each of the first changes, what needs no decision first; what saves nothing is left to the details."""
    proposed = [*ready_to_apply(report), *decisions(report)]
    shown = [each for each in proposed if not saves_nothing(each)][:MOST_ACTIONS]
    hidden = len(proposed) - len(shown)
    more = [StyledLine(f"  and {hidden} more below")] if hidden and shown else []
    return [*(line for each in shown for line in _action(each, report, width)), *more]


def _action(each: Recommendation, report: Report, width: int) -> list[StyledLine]:
    left = f"{each.number:>3} {_what(each, report)}{'' if each.is_free else ' (your decision)'}"
    return spread(left, advice.saved(each, report), width)


def _what(each: Recommendation, report: Report) -> str:
    """The first edit, where there is one: "sft.yaml:23 gradient_checkpointing: true -> false"; else the rule's name.

    Of further edits their places, or how many.
    """
    fixes: Sequence[str] = [row.text for row in advice.rows(each, report) if row.label == "fix"]
    if not each.changes or not fixes:
        return words(each.first.rule)
    return " ".join(fixes[0].split()) + _others(each, report)


def _others(each: Recommendation, report: Report) -> str:
    """ "", "; also t.py:31", "; also t.py:31, t.py:40 and 2 more"; the setting where its place is unknown or named."""
    places = [place(one.location, report.run.folder) if one.location else "" for one in each.changes]
    named = [
        at if at and at not in places[:index] else one.spelling or one.setting
        for index, (one, at) in enumerate(zip(each.changes, places, strict=True))
    ][1 : MOST_PLACES + 1]
    more = len(each.changes) - 1 - len(named)
    return (f"; also {', '.join(named)}" if named else "") + (f" and {more} more" if more else "")
