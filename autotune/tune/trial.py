"""Trials: the user's command with the settings of a candidate, each in a fresh start."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotune import catalogue, collect
from autotune.machine import limits
from autotune.model.derived import Derived
from autotune.model.evidence import RUN, Value
from autotune.model.tuned import Candidate, Key, Outcome, RanOut, Space, Trial
from autotune.model.verified import AFTER, BEFORE, Start
from autotune.tune.outcome import GLOBAL_BATCH, End, ended
from autotune.tune.overlay import Overlay, Script, overlay
from autotune.tune.points import TRAIN
from autotune.tune.useful import NOT_COUNTED, in_own_samples, is_rebatched, tokens_per_sample
from autotune.verify import epochs
from autotune.verify.mirror import Mirror
from autotune.verify.schedule import LEAST_STEPS, WINDOW_S
from autotune.verify.sides import Sides
from autotune.verify.starts import MemoryShortError, Ran, Runner, Show

LOSING = 3.0
"""A candidate whose steps take so many times as long as the user's own is not measured to the end."""

START_UP = 4.0
"""So many times the user's own start-up a candidate may take: it compiles, or spawns workers."""

LEAST_START_UP_S, LEAST_WINDOW_S = 30.0, 5.0

USED_UP = 4
"""A window is so many times as long as what workers have ready: batches of before it are few of it then."""

MOST_READY_S = 10.0
"""At the user's own pace, the part of a window that is only made for that reason."""

LEAST_WARMUP = 3
END_S = 0.5
"""From the end of the window to the end of the last process."""

WARMUP_STEPS = 20
"""Steps that a candidate may need before its window, beside those that use up what its workers prepared."""

LEAST_FREE_SHARE = 0.03
"""Of the memory that this process may use: with less left a trial is ended before the machine swaps or kills."""


READY: Mapping[Key, int] = {
    (TRAIN, "loader.num_workers"): 0,
    (TRAIN, "loader.prefetch_factor"): 2,
    (RUN, "train.accumulation_steps"): 1,
}
"""What says how many batches, of how many a step, are ready; and what it is by default."""


@dataclass(frozen=True, slots=True)
class Usual:
    """The user's own run, as the diagnosis saw it; `samples` are those of a step and `epoch_steps` those of an epoch,
    None when they are not known."""

    step_s: float
    startup_s: float
    samples: float | None
    epoch_steps: int | None = None

    @property
    def trial_s(self) -> float:
        """What a trial takes, about."""
        window_s = max(WINDOW_S, max(LEAST_STEPS, self.multiple) * self.step_s)
        return self.startup_s + window_s + LEAST_WARMUP * self.step_s + END_S

    @property
    def multiple(self) -> int:
        """What the steps of every window divide by: all candidates see as many beginnings of epochs as come."""
        return epochs.multiple(self.step_s, self.epoch_steps)

    def request(self, ready: int) -> collect.Request:
        """What is measured of a candidate whose workers have batches of `ready` steps ready: no longer than a loser
        needs to be known as one."""
        steps = max(LEAST_STEPS, min(USED_UP * ready, round(MOST_READY_S / self.step_s)))
        most_steps = max(steps, math.ceil(WINDOW_S / self.step_s)) + self.multiple - 1 + ready + WARMUP_STEPS
        return collect.Request(
            default_steps=steps,
            min_s=WINDOW_S,
            multiple=self.multiple,
            time_limit_s=max(LEAST_WINDOW_S, LOSING * self.step_s * most_steps),
            startup_limit_s=max(LEAST_START_UP_S, START_UP * self.startup_s),
            what_ifs=False,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where trials run. `python` runs scripts that name none.

    `originals` are the contents of the files that a trial may change, by real path; `mirrors` has one of
    each side, and none without any.
    """

    root: Path
    cwd: Path
    environ: Mapping[str, str]
    python: str
    mirrors: Mapping[str, Mirror]
    originals: Mapping[Path, bytes]
    show: Show


@dataclass(slots=True)
class Trials:
    """The trials of one search. `starts` are the measured ones, by candidate, `effects` what became of
    the writes of each start; `said` is what the last start wrote to
    stderr, "" where it was measured to its end."""

    place: Place
    script: Script
    space: Space
    usual: Usual
    starts: dict[Candidate, Start] = field(default_factory=dict)
    effects: list[collect.SideEffects] = field(default_factory=list)
    said: str = ""

    def attempt(self, number: int, candidate: Candidate, forecast: float | None) -> Trial:
        """Start the command once with the settings of `candidate`, of which the speedup `forecast` is expected."""
        began = time.monotonic()
        made = self.overlay(candidate)
        start, end = self._measured(candidate, made)
        has_pace = start is not None and end.outcome in (Outcome.COMPLETED, Outcome.PRUNED)
        is_limited = start is not None and start.is_on_device == self.space.is_on_device
        return Trial(
            number=number,
            candidate=candidate,
            outcome=end.outcome,
            wall_s=time.monotonic() - began,
            samples_per_s=self._rate(start) if start is not None and has_pace else None,
            step_ms=start.step_ms if start is not None else None,
            memory_bytes=start.memory_bytes if start is not None and is_limited else None,
            forecast=forecast,
            error=end.error,
            ran_out=end.ran_out,
        )

    def overlay(self, candidate: Candidate) -> Overlay:
        """What realises `candidate`."""
        return overlay(self.script, wanted(self.space, candidate))

    def runner(self, sides: Mapping[str, Overlay], against: str = "") -> Runner:
        """What starts each side with its overlay."""
        place = self.place
        files = {side: {**place.originals, **made.files} for side, made in sides.items()}
        words = {side: made.words for side, made in sides.items()}
        compared = Sides(against, words, {BEFORE: place.originals, **files}, sides[AFTER].changes)
        show = _guarded(place, LEAST_FREE_SHARE * limits.memory_limit())
        return Runner(place.root, place.cwd, place.environ, place.python, compared, place.mirrors, show)

    def request(self, made: Overlay, side: str = AFTER) -> collect.Request:
        """The Request of a start with the overlay `made`, whose calls stand in the mirror of the side."""
        mirror = self.place.mirrors.get(side)
        placed = [replace(one, file=mirror.mapped(one.file)) if mirror else one for one in made.overrides]
        return replace(self.usual.request(self._ready(made)), overrides=tuple(placed))

    def judged(
        self, runner: Runner, ran: Ran, asked: Mapping[Key, Value], kept: Mapping[Key, Value]
    ) -> tuple[Start | None, End]:
        """How a start went that should have the settings `asked`, and `kept` where those are seen: counted in the
        user's own samples."""
        collected, start, derived = ran
        self.effects.append(collected.effects)
        by_tokens = is_rebatched(name for _, name in asked)
        counted = in_own_samples(start, derived, tokens_per_sample(self.script.evidence)) if by_tokens else start
        self.said = "" if collected.ended_by == "probe" else runner.told(collected.said)
        own = self.script.evidence.lookup(RUN, GLOBAL_BATCH) if asked else None
        not_comparable = NOT_COUNTED if by_tokens and counted is None else ""
        end = ended(collected, start, derived, {**_seen(derived, kept), **asked}, own, not_comparable)
        return counted or start, end

    def _ready(self, made: Overlay) -> int:
        """Optimizer steps whose batches the workers may have ready."""
        workers, prefetch, batches = (self._whole(made, key, default) for key, default in READY.items())
        return math.ceil(workers * prefetch / batches)

    def _whole(self, made: Overlay, key: Key, default: int) -> int:
        value = made.asked[key] if key in made.asked else self.script.evidence.lookup(*key)
        return value if isinstance(value, int) else default

    def _measured(self, candidate: Candidate, made: Overlay) -> tuple[Start | None, End]:
        if made.missing:
            why = "; ".join(f"{name} cannot be set: {reason}" for name, reason in made.missing.items())
            return None, End(Outcome.FAILED, why)
        self.said, runner = "", self.runner({AFTER: made})
        try:
            ran = runner.run(AFTER, self.request(made))
        except MemoryShortError as short:
            return None, End(Outcome.OUT_OF_MEMORY, str(short), RanOut.HOST)
        start, end = self.judged(runner, ran, made.asked, {})
        if start is not None and end.outcome is Outcome.COMPLETED:
            self.starts[candidate] = start
        return start, end

    def _rate(self, start: Start) -> float:
        """Samples a second; steps a second where the user's own samples are not known."""
        samples = (start.samples or self.usual.samples) if self.usual.samples else 1.0
        return (samples or 1.0) * 1000 / start.step_ms


def _seen(derived: Derived | None, settings: Mapping[Key, Value]) -> dict[Key, Value]:
    """Those of the settings that a start showed."""
    settled = derived.settings if derived is not None else ()
    shown = {(one.subject, one.name) for one in settled if one.value is not None}
    return {key: value for key, value in settings.items() if key in shown}


def wanted(space: Space, candidate: Candidate) -> dict[Key, Value]:
    """The settings that the user has otherwise, by subject and name."""
    owners = {name: subject(name, axis.subject) for axis in space.axes for point in axis.points for name in point}
    return {(owners[name], name): value for name, value in space.changes(candidate).items()}


def subject(name: str, of_axis: str) -> str:
    """Whose setting it is: an axis of a loader may hold settings of the run as well."""
    return RUN if catalogue.settings()[name].subject == RUN else of_axis


def _guarded(place: Place, least_bytes: float) -> Show:
    """What a start calls all the time: shows where it is, and looks at the memory of the host."""

    def shown(status: collect.Status) -> None:
        left = limits.memory_available()
        if left < least_bytes:
            raise MemoryShortError(f"ended by autotune: only {left >> 20} MiB of the host's memory were left")
        place.show(replace(status, where=status.where.removeprefix(f"{place.root}/")))

    return shown
