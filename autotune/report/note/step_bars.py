"""The step as it is and after each group of changes: a bar each, divided into phases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autotune.model.finding import Recommendation
from autotune.model.report import PHASES, Report, Step
from autotune.report.gains import additional_gain, basis
from autotune.report.labels import PHASES as PHASE_NAMES
from autotune.report.labels import phases
from autotune.report.note.blocks import Key, Label, Picture, Rect, Shape
from autotune.report.stages import Stage, stages, title
from autotune.report.units import step_time

ROW, BAR = 54, 22
"""Pixels of a row, and of its bar."""

LEAST_SHARE = 0.002
"""Of the picture: a narrower part is not seen."""


def picture(report: Report, step: Step) -> Picture:
    """One row for each stage; a bound and what is computed are marked as such in the label."""
    found = stages(report)
    now = {phase: ms for phase in PHASES if (ms := step.breakdown_ms.get(phase))}
    rows = [(stage, phases_after(stage, now, step)) for stage in found]
    shapes = [shape for index, (stage, left) in enumerate(rows) for shape in _row(index, stage, left, step, report)]
    told = [f"{title(stage, report)}: {step_time(sum(left.values()))}" for stage, left in rows]
    return Picture(
        title="The step now and after each group of changes",
        description="One bar for each, as long as its step, divided into phases. " + "; ".join(told) + ".",
        height=ROW * len(rows),
        shapes=tuple(shapes),
        legend=tuple(Key(phase, PHASE_NAMES[phase]) for phase in PHASES if phase in now),
    )


def phases_after(stage: Stage, now: Mapping[str, float], step: Step) -> dict[str, float]:
    """What is left of each phase once all of the stage is done, in ms.

    What a change removes is taken from the phases that it acts on, in proportion to them; what these do not have, and
    what acts on none in particular, is taken from all.
    """
    left = dict(now)
    for recommendation in stage.made:
        gain = additional_gain(recommendation)
        if gain is not None:
            _take(left, _phases(recommendation), gain.share * step.mean_ms)
    return left


def _phases(recommendation: Recommendation) -> frozenset[str]:
    return frozenset().union(*(phases(finding.rule) for finding in recommendation.findings))


def _take(left: dict[str, float], of: frozenset[str], ms: float) -> None:
    for names in ([name for name in left if name in of], list(left)):
        there = sum(left[name] for name in names)
        if there <= 0 or not ms:
            continue
        taken = min(ms, there) if ms > 0 else ms
        for name in names:
            left[name] -= taken * left[name] / there
        ms -= taken


def _row(index: int, stage: Stage, left: Mapping[str, float], step: Step, report: Report) -> Iterator[Shape]:
    top = index * ROW
    of = "" if stage.gain is None else f" ({_BASES[basis(stage.gain, step)]})"
    at_best = "at best " if stage.gain is not None and stage.gain.basis == "bound" else ""
    name = "now" if stage.gain is None else title(stage, report)
    yield Label(0, top + 16, f"{name}: {at_best}{step_time(sum(left.values()))}{of}")
    x = 0.0
    for phase, ms in left.items():
        width = 100 * ms / max(step.mean_ms, sum(left.values()))
        if width >= 100 * LEAST_SHARE:
            yield Rect(x, top + 24, width, BAR, phase, f"{PHASE_NAMES[phase]} {step_time(ms)}")
        x += width


_BASES = {"measured": "measured", "modelled": "modelled", "profiled": "profiled", "bound": "a bound"}
