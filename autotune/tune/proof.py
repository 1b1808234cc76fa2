"""The best candidate against the user's own configuration, by the protocol of verify: only this decides."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from autotune.errors import ScriptError
from autotune.model.rule import Effect
from autotune.model.tuned import Candidate, Outcome
from autotune.model.verified import AFTER, BEFORE, Sameness, Schedule, Start, Verdict, Verified
from autotune.tune.trial import Trials
from autotune.verify import rounds
from autotune.verify.estimate import LEAST_PAIRS
from autotune.verify.schedule import schedule
from autotune.verify.starts import Runner
from autotune.verify.summary import summarise

AGAINST = "the best settings against your own"
UNLIMITED_S = 1e6
PATIENCE = 10.0
"""Times as long as a trial may take: here a slow start is a measurement, and is not cut off as that of a loser."""

SLACK = 1.1
"""Of the time that the least number of pairs takes: what a start takes differs a little."""


def proven(trials: Trials, best: Candidate, left_s: float, announce: Callable[[Schedule], None]) -> Verified:
    """Measure `best` in turns with the user's own, in `left_s` seconds or what the least number of pairs takes.

    Raises ScriptError when a start fails, BusyError when other work disturbs the starts.
    """
    own = trials.space.current
    runner = trials.runner({BEFORE: trials.overlay(own), AFTER: trials.overlay(best)}, AGAINST)
    began = time.monotonic()
    rehearsed = [replace(_rehearsed(trials, one), side=side) for side, one in ((BEFORE, own), (AFTER, best))]
    planned = _planned(rehearsed, left_s - (time.monotonic() - began))
    announce(planned)
    deadline = time.monotonic() + SLACK * planned.seconds
    candidates = {BEFORE: own, AFTER: best}
    starts = rounds.make(
        lambda side: _start(trials, runner, side, candidates[side], planned), planned, rehearsed, deadline
    )
    made = replace(planned, order=tuple(start.side for start in starts))
    return summarise(runner.sides, starts, made, time.monotonic() - began, ())


def has_won(verified: Verified) -> bool:
    """Whether it is surely faster, and trains as it is said to."""
    altering = any(change.effect is Effect.ALTERING for change in verified.changes)
    is_same = altering or verified.losses.sameness is not Sameness.DIFFERENT
    return verified.verdict is Verdict.FASTER and is_same


def _rehearsed(trials: Trials, candidate: Candidate) -> Start:
    """The start of its trial; another one where that was measured by an earlier or another tuner."""
    if candidate not in trials.starts:
        tried = trials.attempt(-1, candidate, None)
        if tried.outcome is not Outcome.COMPLETED:
            raise _failed(tried.error)
    return trials.starts[candidate]


def _planned(rehearsed: list[Start], left_s: float) -> Schedule:
    whole = schedule(rehearsed, UNLIMITED_S, 0.0, None)
    pair_s = whole.seconds / (len(whole.order) // 2)
    return schedule(rehearsed, max(left_s, SLACK * LEAST_PAIRS * pair_s), 0.0, None)


def _start(trials: Trials, runner: Runner, side: str, candidate: Candidate, planned: Schedule) -> Start:
    made = trials.overlay(candidate)
    own = trials.request(made)
    request = replace(
        own,
        default_steps=max(own.default_steps, planned.steps),
        warmup=planned.warmup,
        time_limit_s=PATIENCE * own.time_limit_s,
    )
    start, (outcome, error) = trials.run(runner, side, request, made.asked)
    if start is None or outcome is not Outcome.COMPLETED:
        raise _failed(error)
    return start


def _failed(error: str) -> ScriptError:
    return ScriptError(f"a start failed that went well before: {error}")
