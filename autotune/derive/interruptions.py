"""Saves and evaluations: what one costs, how often they come, and what that makes of the run and its mean step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median

from autotune.catalogue import frameworks
from autotune.catalogue.frameworks import IntervalKind
from autotune.derive import save_cost, training_plan
from autotune.derive.recording_view import MeasuredWindow, RecordingView, S
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import WhatIf

Rounds = dict[int, float]
"""Seconds of one round (all saves, or all evaluations, between two step ends) by the number of steps before it."""


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `checkpoint.*` and `evaluation.*`."""
    yield from _checkpoint(view)
    yield from _evaluation(view)


def _checkpoint(view: RecordingView) -> Iterator[Fact]:
    saves, probe = save_rounds(view), _serialised(view)
    if view.step_ends_ns:
        yield Fact("checkpoint.num_seen", RUN, len(saves) + (probe is not None))
    cost = save_s(view)
    if cost is not None:
        yield Fact("checkpoint.save_s", RUN, cost)
        yield from _cost_share(view, "checkpoint", cost)
    if probe:
        yield Fact("checkpoint.bytes", RUN, probe.result["bytes"])


def save_rounds(view: RecordingView) -> Rounds:
    """The saves after the first step; a library's save holds the torch.save calls that it makes."""
    saves = [n for n in view.nodes if n.event.kind == "checkpoint" and n.outermost]
    return _rounds(view, [(node.start_ns, node.end_ns) for node in saves])


def save_s(view: RecordingView) -> float | None:
    """Mean seconds of one save with what comes with it; of the what-if's serialisation when no save was seen."""
    rounds, probe = save_rounds(view), _serialised(view)
    if rounds:
        return max(fmean(rounds.values()), save_cost.added_s(view, rounds) or 0.0)
    return probe.result["ns"] / S if probe else None


def _serialised(view: RecordingView) -> WhatIf | None:
    return next((w for w in view.recording.what_ifs if w.name == "serialise" and w.outcome == "completed"), None)


def _evaluation(view: RecordingView) -> Iterator[Fact]:
    told = training_plan.framework(view.recording)
    if not any("evaluation.selects_checkpoint" in one.unseen for one in frameworks.chain(told.name)):
        keeps = bool(told.says("evaluation.selects_checkpoint"))
        yield Fact("evaluation.selects_checkpoint", RUN, keeps)
    if view.step_ends_ns:
        yield Fact("evaluation.num_seen", RUN, len(evaluation_rounds(view)))
    later = [span for span in view.evaluations if view.steps_before(span.start_ns)]
    if later:
        yield Fact("evaluation.with_grad", RUN, any(span.with_grad for span in later))
    cost = eval_s(view)
    if cost is not None:
        yield Fact("evaluation.eval_s", RUN, cost)
        yield from _cost_share(view, "evaluation", cost)


def eval_s(view: RecordingView) -> float | None:
    """Mean seconds of one whole evaluation; None when none was seen."""
    whole = evaluation_rounds(view, only_complete=True)
    return fmean(whole.values()) if whole else None


def evaluation_rounds(view: RecordingView, only_complete: bool = False) -> Rounds:
    """The evaluations after the first step; an incomplete one was cut by the end of the recording."""
    cut = {view.steps_before(span.start_ns) for span in view.evaluations if not span.complete}
    rounds = _rounds(view, [(span.start_ns, span.end_ns) for span in view.evaluations])
    return {steps: s for steps, s in rounds.items() if not (only_complete and steps in cut)}


def _rounds(view: RecordingView, spans: Sequence[tuple[int, int]]) -> Rounds:
    rounds: Rounds = {}
    for start, end in spans:
        steps = view.steps_before(start)
        if steps:
            rounds[steps] = rounds.get(steps, 0.0) + (end - start) / S
    return rounds


def interval(view: RecordingView, cost: IntervalKind) -> int | None:
    """Optimizer steps between two rounds of "checkpoint" or "evaluation": as told, or else as seen."""
    told = training_plan.interval(view, cost)
    if told is not None:
        return told
    return _checkpoint_distance(view) if cost == "checkpoint" else _evaluation_distance(view)


def _checkpoint_distance(view: RecordingView) -> int | None:
    """Median distance of the saves. The one after the last step of a script that ended is no part of a rhythm."""
    window = view.recording.window
    steps = sorted(save_rounds(view))
    if window and window.ended_by == "script_ended" and steps and steps[-1] == len(view.step_ends_ns):
        steps = steps[:-1]
    return _distance(steps)


def _evaluation_distance(view: RecordingView) -> int | None:
    """Median distance of the evaluations, or the epoch when the only one stands where an epoch ends.

    An evaluation before the first step counts as a mark: it is step 0 of the same rhythm (`step % interval ==
    0`), or a sanity check from which the first whole interval begins.
    """
    steps = sorted(evaluation_rounds(view))
    if any(not view.steps_before(span.start_ns) for span in view.evaluations):
        steps = [0, *steps]
    seen = _distance(steps)
    if seen is None and len(steps) == 1 and _ends_epoch(view, steps[0]):
        return training_plan.steps_per_epoch(view)
    return seen


def _distance(steps: Sequence[int]) -> int | None:
    gaps = [after - before for before, after in itertools.pairwise(steps)]
    return round(median(gaps)) if gaps else None


def _ends_epoch(view: RecordingView, steps: int) -> bool:
    """Whether the train loader was exhausted or started anew after `steps` steps and before the next."""
    loader = view.train
    return loader is not None and any(
        node.event.ref in loader.iterated
        and view.steps_before(node.start_ns) == steps
        and (node.event.kind == "iter" or (node.event.kind == "fetch" and not node.event.flag))
        for node in view.nodes
    )


def _cost_share(view: RecordingView, cost: IntervalKind, seconds: float) -> Iterator[Fact]:
    """Of a round and the steps between two; these are the window's without what its rounds took."""
    steps = interval(view, cost)
    if steps and view.window:
        training_s = steps * max(0.0, view.window.mean_ms - _took_ms(view, view.window, cost, seconds)) / 1e3
        yield Fact(f"{cost}.cost_share", RUN, seconds / (training_s + seconds))


def _took_ms(view: RecordingView, window: MeasuredWindow, cost: IntervalKind, seconds: float | None) -> float:
    """What the rounds in the window took of its mean step, where each is as long as `seconds`."""
    in_window = sum(window.holds(view.step_ends_ns[done - 1]) for done in ROUNDS[cost](view))
    return max(window.phase_ms(cost) or 0.0, 1e3 * (seconds or 0.0) * in_window / window.steps)


def run_ms(view: RecordingView) -> float | None:
    """Milliseconds of a step of the whole run: with saves and evaluations at their intervals.

    How many of them fell into the window does not count. None where it has some and nothing says how often they come,
    or where they come within the run and nothing says how long a whole one takes.
    """
    if view.window is None:
        return None
    training_ms, rounds_ms, planned = view.window.mean_ms, 0.0, training_plan.num_steps(view)
    costs: Mapping[IntervalKind, float | None] = {"checkpoint": save_s(view), "evaluation": eval_s(view)}
    for cost, seconds in costs.items():
        steps, took_ms = interval(view, cost), _took_ms(view, view.window, cost, seconds)
        if seconds is not None and steps:
            training_ms, rounds_ms = training_ms - took_ms, rounds_ms + 1e3 * seconds / steps
        elif took_ms or (steps and steps <= (planned or steps)):
            return None
    return max(0.0, training_ms) + rounds_ms


ROUNDS: Mapping[IntervalKind, Callable[[RecordingView], Rounds]] = {
    "checkpoint": save_rounds,
    "evaluation": evaluation_rounds,
}
