"""The answer of a search: what its changes bring, what is left to the user, and the patch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from msgspec.structs import replace

from autotune import patch
from autotune.collect import artefacts
from autotune.diagnose import write_patch as patching
from autotune.errors import AutotuneError
from autotune.model.finding import Gain
from autotune.model.forecast import Forecast
from autotune.model.patch import Patch, PatchChange
from autotune.model.report import Report, Step
from autotune.model.tuned import Axis, Candidate, Outcome, SearchTrial, SkippedSetting, Space, UntriedFinding
from autotune.patch.file import NAME, dumps
from autotune.report import gains
from autotune.report.labels import assignments
from autotune.report.units import percent, size, step_time
from autotune.tune.ablation import Ablation
from autotune.tune.surrogate import NOISE, speeds
from autotune.tune.trial import Trials
from autotune.tune.winner import Winner


def with_gain(change: PatchChange, ablation: Ablation) -> PatchChange:
    """The change with the share of the speed that it brings."""
    share = ablation.brings.get(change.setting, 0.0)
    brings = f"{percent(share)} of the speed"
    is_measured = change.setting in ablation.measured
    text = f"brings {brings}, by the trials" if is_measured else f"is expected to bring {brings}"
    return replace(change, gain=text if share > 0 else "")


def manual(trials: Trials, winner: Winner) -> Iterator[PatchChange]:
    """The changes of the fastest candidate that no edit makes and that bring more than noise."""
    fastest = winner.fastest
    if fastest.candidate != winner.writable.candidate:
        for change in patch.with_dependencies(trials.realisation(fastest.candidate).changes):
            if change.by_hand and fastest.brings.get(change.setting, 0.0) > NOISE:
                yield with_gain(change, fastest)


def dropped(winner: Winner) -> tuple[SkippedSetting, ...]:
    """The changes that bring nothing, of the fastest candidate and of the confirmed one."""
    return tuple({one.setting: one for one in (*winner.fastest.dropped, *winner.writable.dropped)}.values())


def losses_differ(space: Space, chosen: Candidate, axis: Axis, why: str) -> Iterator[SkippedSetting]:
    """The changes of an axis that may be what makes the losses differ."""
    for name in space.changes(chosen):
        if any(name in point for point in axis.points):
            yield SkippedSetting(name, f"taken back: the losses differ, and this change may be the cause: {why}")


def beyond(report: Report, space: Space) -> Iterator[UntriedFinding]:
    """Recommendations of the diagnosis that bring something and change no setting that is searched."""
    for one in report.recommendations:
        changes = [(found.subject, change.setting) for found in one.findings for change in found.changes]
        if one.gain is not None and not any(space.is_searched(*change) for change in changes):
            gain = replace(one.gain, basis=gains.basis(one.gain, report.step))
            yield UntriedFinding(tuple(found.rule.id for found in one.findings), one.first.message, gain)


def predicted(expected: Forecast | None, step: Step | None) -> Gain | None:
    """The gain that the diagnosis predicted; None where it has no model of one of the changes."""
    if expected is None or expected.unmodelled or step is None:
        return None
    now = step.mean_ms
    return Gain(now / expected.ms, now / expected.high_ms, now / expected.low_ms, expected.basis)


def unconfirmed(space: Space, trials: Sequence[SearchTrial], chosen: Candidate, error: AutotuneError) -> str:
    """How fast the chosen candidate was in the trials, and why that is not confirmed."""
    own = [trial for trial in trials if trial.candidate == space.current]
    its = [trial for trial in trials if trial.candidate == chosen]
    settings = assignments(space.changes(chosen))
    if own and its and all(trial.outcome is Outcome.OUT_OF_MEMORY for trial in own):
        return _fits(settings, own[0], its[0])
    new, old = ([speed for one, speed in speeds(trials) if one == each] for each in (chosen, space.current))
    was = f" was {fmean(new) / fmean(old):.2f}x as fast as the baseline in the trials, but that" if new and old else ""
    return f"{settings}{was} is not confirmed: {error.what}"


def _fits(settings: str, own: SearchTrial, its: SearchTrial) -> str:
    """What to do where the baseline is at the limit of the memory."""
    used = f" in {size(its.memory_bytes)}" if its.memory_bytes is not None else ""
    pace = f" at {step_time(its.step_ms)} per step" if its.step_ms is not None else ""
    return (
        f"the baseline ran in the diagnosis, but ran out of memory in trial {own.number} "
        f"({own.error}); {settings} ran{used}{pace}, with the same global batch: set that, or free memory"
    )


def write_patch(changes: Sequence[PatchChange], root: Path, folder: Path, command: Sequence[str]) -> str:
    """Write what `apply` takes: the changes that were confirmed together, with their edits or all of them manual."""
    relative = tuple(patching.relative_to_root(changes, root))
    artefacts.write_patch(folder / NAME, dumps(Patch(str(root), folder.name, tuple(command), relative)))
    return str(folder / NAME)
