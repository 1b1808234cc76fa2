"""A/B confirmation: the best candidate against the baseline by the protocol of verify. Only this decides."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from autotune import collect, patch
from autotune.errors import ScriptError
from autotune.model.evidence import Value
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.tuned import SCHEDULING, Candidate, Key, Outcome, Space
from autotune.model.verified import AFTER, BEFORE, LossComparison, LossVerdict, RunResult, Schedule, Verdict, Verified
from autotune.tune import memory_limit
from autotune.tune.trial import Trials, subject
from autotune.verify import pairs, summary
from autotune.verify.accumulation_scaling import explained
from autotune.verify.runs import MemoryShortError, free_resources
from autotune.verify.schedule import least_s, schedule
from autotune.verify.thresholds import LEAST_LOSSES

AGAINST = "the best settings against the baseline"
PATIENCE = 10.0
"""Multiple of the time limit of a trial: a slow run is a measurement here, and not cut off."""

SLACK = 1.1
"""Multiple of the expected time of the least number of pairs: the duration of a run varies."""


def confirm(trials: Trials, best: Candidate, left_s: float, announce: Callable[[Schedule], None]) -> Verified:
    """Measure `best` and the baseline in turns, in `left_s` seconds or what the least number of pairs takes.

    Raises ScriptError when a run fails, UsageError when the time is too short for two pairs.
    """
    own = trials.space.current
    began = time.monotonic()
    rehearsed = [replace(_trial_run(trials, one), side=side) for side, one in ((BEFORE, own), (AFTER, best))]
    asked = max(trials.request(trials.realisation(one)).default_steps for one in (own, best))
    planned = _planned(rehearsed, asked, left_s - (time.monotonic() - began))
    announce(planned)
    candidates = {BEFORE: own, AFTER: best}
    # One job for all of them: machines of one kind differ by more than what is to be found.
    with trials.workspace.job() as there:
        if there is not None:
            trials.check_machine(there)
        deadline = max(began + left_s, time.monotonic() + SLACK * planned.seconds)
        runner = trials.runner({BEFORE: trials.realisation(own), AFTER: trials.realisation(best)}, AGAINST, there)
        measured = pairs.PairRunner(runner, planned.turns if there is None else None)
        starts, look = pairs.measure(
            lambda pair: _pair(trials, measured, pair, candidates, planned),
            len(planned.order) // 2,
            planned.pair_s,
            deadline,
            lambda starts, look: summary.is_conclusive(starts, rehearsed, look),
        )
    took_s = time.monotonic() - began
    pairs.refuse_few(starts, took_s, planned.pair_s)
    made = replace(planned, order=tuple(start.side for start in starts), turns=measured.turns)
    notes = tuple(filter(None, [memory_limit.unknown_peak(trials.script.evidence, trials.space, best)]))
    return summary.summarise(runner.sides, starts, made, took_s, notes, rehearsed, look)


def has_won(verified: Verified) -> bool:
    """Whether it is significantly faster, and its losses are as its changes say."""
    return verified.verdict is Verdict.FASTER and not has_other_losses(verified)


def has_other_losses(verified: Verified) -> bool:
    """Whether its losses differ although none of its changes is said to alter them."""
    return verified.losses.sameness is LossVerdict.DIFFERENT and not _is_altering(verified.changes)


def scaled_losses(trials: Trials, best: Candidate) -> str:
    """Why the losses of its trial are those of the baseline times the factor of the accumulation steps.

    "" where they are not, where a change may alter them, or where one of the two was not measured by this tuner.
    """
    own, its = (trials.starts.get(one) for one in (trials.space.current, best))
    made = trials.realisation(best).changes
    if own is None or its is None or _is_altering(made):
        return ""
    steps = min(len(own.losses), len(its.losses))
    other = LossComparison(LossVerdict.DIFFERENT, steps, f"its losses over {steps} steps are others")
    found = explained(other, own.losses, its.losses, made)
    return found.why if found != other else ""


def manual_changes(trials: Trials, candidate: Candidate) -> frozenset[str]:
    """The changes of a candidate that no edit makes, and those that depend on such a change."""
    return frozenset(
        one.setting for one in patch.with_dependencies(trials.realisation(candidate).changes) if one.by_hand
    )


def written_together(changes: Iterable[PatchChange]) -> tuple[PatchChange, ...]:
    """The changes as they were confirmed, together: one manual change makes all of them manual, and an altering one is
    never written without the others."""
    coupled = tuple(patch.with_dependencies(tuple(changes)))
    is_altering = _is_altering(coupled)
    names = tuple(one.setting for one in coupled if one.by_hand or is_altering)
    return tuple(patch.with_dependencies([_with(one, names) if one.edits else one for one in coupled]))


def _with(change: PatchChange, names: Iterable[str]) -> PatchChange:
    """The change, which depends on the changes of these names too."""
    others = (name for name in names if name != change.setting)
    return replace(change, needs=tuple(dict.fromkeys((*change.needs, *others))))


def _is_altering(changes: Iterable[PatchChange]) -> bool:
    return any(change.effect is Effect.ALTERING for change in changes)


def _trial_run(trials: Trials, candidate: Candidate) -> RunResult:
    """The run of its trial; a new one where an earlier or another tuner made that trial."""
    if candidate not in trials.starts:
        tried = trials.attempt(-1, candidate, None)
        if tried.outcome is not Outcome.COMPLETED:
            raise _failed(tried.error)
    return trials.starts[candidate]


def _planned(rehearsed: list[RunResult], steps: int, left_s: float) -> Schedule:
    """The schedule: enough steps to drain the prefetch queue of either side and to compare losses."""
    loss_steps = max(LEAST_LOSSES, max(start.warmup for start in rehearsed) + steps)
    return schedule(rehearsed, max(left_s, SLACK * least_s(rehearsed, loss_steps)), 0.0, loss_steps, free_resources())


def _pair(
    trials: Trials,
    measured: pairs.PairRunner,
    pair: Sequence[str],
    candidates: Mapping[str, Candidate],
    planned: Schedule,
) -> list[RunResult]:
    realised = {side: trials.realisation(candidates[side]) for side in pair}
    trials.said = ""
    try:
        ran = measured.make(_requests({side: trials.request(realised[side], side) for side in pair}, planned))
    except MemoryShortError as short:
        raise _failed(str(short)) from None
    starts: list[RunResult] = []
    for side in pair:
        unchanged = _unchanged(trials.space, candidates[side])
        start, end = trials.judged(measured.runner, ran[side], realised[side].asked, unchanged)
        if start is None or end.outcome is not Outcome.COMPLETED:
            raise _failed(end.error)
        starts.append(start)
    return starts


def _requests(own: Mapping[str, collect.Request], planned: Schedule) -> dict[str, collect.Request]:
    """Both sides measure the same number of steps, in whole epochs where epochs are short."""
    each = max(one.multiple or 1 for one in own.values())
    steps = math.ceil(planned.steps / each) * each
    return {
        side: replace(one, steps=steps, warmup=planned.warmup, time_limit_s=PATIENCE * one.time_limit_s)
        for side, one in own.items()
    }


def _unchanged(space: Space, candidate: Candidate) -> dict[Key, Value]:
    """The searched settings that affect learning and that the candidate leaves unchanged."""
    now = space.settings(space.current)
    return {
        (subject(name, axis.subject), name): value
        for axis, at in zip(space.axes, candidate, strict=True)
        for name, value in axis.points[at].items()
        if axis.name not in SCHEDULING and now.get(name) == value
    }


def _failed(error: str) -> ScriptError:
    return ScriptError(f"a run failed that succeeded in its trial: {error}")
