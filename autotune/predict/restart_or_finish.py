"""Whether a change pays: over the planned run, and for a job that already runs: restart it, or let it end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from autotune.model.finding import Gain, speedup_without
from autotune.model.outlook import Payback, Position, Restart, RestartForecast, RestartOption
from autotune.model.report import Step

LEAST_SHARE, LEAST_S = 0.02, 60.0
"""A change that saves less than 2 % of the time, or less than a minute, is not worth it: verify cannot tell 2 % from
nothing, and somebody has to look at the change."""


def of_run(gain: Gain, step: Step) -> Gain:
    """`gain`, which is of the window's step, as one of a step of the whole run; as it is where that is unknown."""
    if not step.run_ms:
        return gain
    scale = step.mean_ms / step.run_ms
    speedup, low, high = (speedup_without(scale * (1 - 1 / each)) for each in (gain.speedup, gain.low, gain.high))
    return replace(gain, speedup=speedup, low=low, high=high)


def payback(
    gain: Gain, numbers: Sequence[int], step_s: float, num_steps: int | None, startup_s: float | None
) -> Payback:
    """What `gain`, of the recommendations `numbers` together, wins back.

    `step_s` is the step that it is of, `num_steps` the planned run. It is worth it unless even the upper end saves too
    little.
    """
    planned_s = num_steps * step_s if num_steps else None
    speedups = (gain.speedup, gain.low, gain.high)
    saved, low, high = (None if planned_s is None else planned_s * (1 - 1 / each) for each in speedups)
    steps, most, fewest = (None if startup_s is None else _steps(startup_s, step_s, each) for each in speedups)
    return Payback(
        numbers=tuple(numbers),
        basis=gain.basis,
        planned_s=planned_s,
        saved_s=saved,
        low_s=low,
        high_s=high,
        startup_s=startup_s,
        steps=steps,
        low_steps=fewest,
        high_steps=most,
        least_s=None if planned_s is None else least_s(planned_s),
    )


def least_s(seconds: float) -> float:
    """What a change has to save of `seconds` to be worth it."""
    return max(LEAST_S, LEAST_SHARE * seconds)


def _steps(startup_s: float, step_s: float, speedup: float) -> int | None:
    """Steps that must be left to win back a start-up; None when that never happens."""
    saved_s = step_s * (1 - 1 / speedup)
    return math.ceil(startup_s / saved_s) if saved_s > 0 else None


def restart(
    position: Position | str, gain: Gain | None, numbers: Sequence[int], startup_s: float | None, interval: int | None
) -> Restart:
    """Let the job end, restart it now, or after its next save: the cheapest by time, where all of `gain` agrees.

    `interval` is optimizer steps between two saves; without one a restart begins at step 0. All times are linear in
    1 / speedup: what is right at both ends of the interval is so in between. A `position` that is text says why there
    is none.
    """
    if isinstance(position, str):
        return Restart(None, (), None, 0.0, (), (position,))
    left_s = position.left * position.step_s
    finish, least = RestartForecast(RestartOption.FINISH, left_s, left_s, left_s), least_s(left_s)
    if gain is None:
        why = "no change that keeps training the same has a known gain"
        return Restart(position, (finish,), RestartOption.FINISH, least, (), (*position.notes, why))
    if startup_s is None:
        notes = (*position.notes, "no start-up was timed")
        return Restart(position, (finish,), None, least, tuple(numbers), notes, gain.basis)
    courses = (finish, *_restarts(position, gain, startup_s, interval))
    notes = position.notes
    if interval is None and position.step:
        notes = (*notes, "the save interval is unknown: a restart is assumed to begin at step 0")
    return Restart(position, courses, _choice(courses, least), least, tuple(numbers), notes, gain.basis)


def _restarts(position: Position, gain: Gain, startup_s: float, interval: int | None) -> Iterator[RestartForecast]:
    def course(way: RestartOption, wait: int, repeated: int) -> RestartForecast:
        after = position.left - wait + repeated
        likely, best, worst = (
            wait * position.step_s + startup_s + after * position.step_s / each
            for each in (gain.speedup, gain.high, gain.low)
        )
        return RestartForecast(way, likely, best, worst, repeated_steps=repeated, wait_steps=wait)

    lost = position.step % interval if interval else position.step
    yield course(RestartOption.RESTART_NOW, 0, lost)
    if interval and lost and interval - lost < position.left:
        yield course(RestartOption.RESTART_AFTER_SAVE, interval - lost, 0)


def _choice(courses: Sequence[RestartForecast], least: float) -> RestartOption | None:
    """The cheapest way; None where the ends of the gain's interval do not agree whether to restart at all."""
    likely = _cheapest([(one.way, one.seconds) for one in courses], least)
    ends = {_cheapest([(one.way, getattr(one, end)) for one in courses], least) for end in ("low_s", "high_s")}
    return likely if len(ends) == 1 or RestartOption.FINISH not in ends else None


def _cheapest(times: Sequence[tuple[RestartOption, float]], least: float) -> RestartOption:
    """The way that takes least time; a restart has to be `least` seconds shorter than letting the job end."""
    return min(times, key=lambda one: one[1] + (0.0 if one[0] is RestartOption.FINISH else least))[0]
