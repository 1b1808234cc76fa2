"""From the trials of a search to its winner: without what brings nothing, proven, and as a patch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from autotune import patch, predict
from autotune.api import patching
from autotune.api.searches import Kept
from autotune.api.watch import Watch
from autotune.collect import artefacts
from autotune.errors import AutotuneError, BusyError, ScriptError
from autotune.model.evidence import Value
from autotune.model.finding import Gain
from autotune.model.forecast import Forecast
from autotune.model.patch import Patch, PatchChange
from autotune.model.report import Report
from autotune.model.tuned import Candidate, Space, Trial, Tuned
from autotune.patch.file import NAME, dumps
from autotune.report.tune_text import changed
from autotune.report.units import percent
from autotune.tune import proof
from autotune.tune.minimal import minimal
from autotune.tune.search import best, speeds
from autotune.tune.trial import Trials
from autotune.verify import history
from autotune.verify.estimate import LEAST_PAIRS


@dataclass(frozen=True, slots=True)
class Search:
    """What the stages of one search share; `ends_at` is a time of the monotonic clock, None without a budget."""

    kept: Kept
    report: Report
    trials: Trials
    watch: Watch
    ends_at: float | None

    @property
    def left_s(self) -> float | None:
        """Seconds that are left of the budget; None without one."""
        return None if self.ends_at is None else self.ends_at - time.monotonic()

    @property
    def proof_s(self) -> float:
        """What the proof takes, about."""
        return proof.SLACK * 2 * LEAST_PAIRS * self.trials.usual.trial_s

    def forecast(self, settings: Mapping[str, Value]) -> Forecast | None:
        """The step that the diagnosis lets expect under these settings."""
        return predict.step_ms(settings, self.report.evidence)

    def attempt(self, number: int, candidate: Candidate, forecast: float | None) -> Trial:
        """One trial. The reader is told of its end when it is kept."""
        self.watch.began(number, self.trials.space.changes(candidate))
        return self.trials.attempt(number, candidate, forecast)


def winner(made: Search, tried: tuple[Trial, ...], stopped: str) -> Tuned:
    """The winner of the trials `tried`, if there is one; `stopped` says why there are no more of them."""
    found = made.trials.space
    tuned = Tuned(found, tried, {}, None, stopped, 0.0, 0.0)
    fastest = best(found, made.forecast, tried)
    if fastest == found.current:
        return tuned
    more: list[Trial] = []
    first = 1 + max(trial.number for trial in tried)
    least = minimal(found, made.forecast, fastest, tried, partial(_tried, made, first, more))
    tuned = replace(tuned, trials=(*tried, *more), dropped=least.dropped)
    return tuned if least.candidate == found.current else _proven(made, least.candidate, least.brings, tuned)


def _tried(made: Search, first: int, more: list[Trial], candidate: Candidate) -> Trial | None:
    """The trial of a winner without some of its changes; None where the time for it is over."""
    if made.left_s is not None and made.left_s < made.proof_s + made.trials.usual.trial_s:
        return None
    trial = made.attempt(first + len(more), candidate, None)
    made.watch.ended(trial)
    more.append(trial)
    return trial


def _proven(made: Search, chosen: Candidate, brings: Mapping[str, float], tuned: Tuned) -> Tuned:
    """With what the proof says of the chosen one, and its patch where it won."""
    try:
        verified = proof.proven(made.trials, chosen, made.left_s or 0.0, made.watch.proving)
    except (BusyError, ScriptError) as error:
        return replace(tuned, notes=(_unproven(made.trials.space, chosen, tuned.trials, error),))
    changes = tuple(_with_gain(change, brings) for change in verified.changes)
    verified = replace(verified, changes=changes, predicted=_predicted(made, chosen))
    root, run = made.trials.place.root, made.kept.folder.name
    history.append(root, run, verified.predicted, verified.verdict, verified.estimate)
    if not proof.has_won(verified):
        return replace(tuned, verified=verified)
    best_changes = made.trials.space.changes(chosen)
    return replace(tuned, best=best_changes, verified=verified, patch=_patched(made, changes))


def _unproven(found: Space, chosen: Candidate, trials: Sequence[Trial], error: AutotuneError) -> str:
    """How fast the chosen one was in the trials, and why that is not proven."""
    its, own = ([speed for one, speed in speeds(trials) if one == each] for each in (chosen, found.current))
    ratio = f" was {fmean(its) / fmean(own):.2f}x as fast as your own in the trials, but that" if its and own else ""
    why = f"other work disturbed the proof, {error.what}" if isinstance(error, BusyError) else error.what
    return f"{changed(found.changes(chosen))}{ratio} is not proven: {why}"


def _with_gain(change: PatchChange, brings: Mapping[str, float]) -> PatchChange:
    share = brings.get(change.setting, 0.0)
    return replace(change, gain=f"brings {percent(share)} of the speed, by the trials" if share > 0 else "")


def _predicted(made: Search, chosen: Candidate) -> Gain | None:
    """What the diagnosis let expect of the chosen one; None where it knows not all of the changes."""
    expected, step = made.forecast(made.trials.space.settings(chosen)), made.report.step
    if expected is None or expected.unmodelled or step is None:
        return None
    now = step.mean_ms
    return Gain(now / expected.ms, now / expected.high_ms, now / expected.low_ms, expected.basis)


def _patched(made: Search, changes: Sequence[PatchChange]) -> str:
    """Write what `apply` takes: the edits, and what has to be done by hand."""
    root, folder = made.trials.place.root, made.kept.folder
    relative = tuple(patching.relative(patch.coupled(changes), root))
    artefacts.write_text(folder / NAME, dumps(Patch(str(root), folder.name, made.report.run.command, relative)))
    return str(folder / NAME)
