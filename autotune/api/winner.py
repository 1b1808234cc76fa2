"""From the trials of a search to its winner: without what brings nothing, proven, and as a patch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from autotune import patch
from autotune.api import patching
from autotune.api.search import Search
from autotune.collect import artefacts
from autotune.errors import AutotuneError, ScriptError, UsageError
from autotune.model.finding import Gain
from autotune.model.patch import Patch, PatchChange
from autotune.model.tuned import Axis, Candidate, LeftOut, Outcome, Trial, Tuned
from autotune.patch.file import NAME, dumps
from autotune.report.tune_text import changed
from autotune.report.units import percent, size, step_time
from autotune.tune import proof
from autotune.tune.belief import NOISE
from autotune.tune.choice import Choice, choose, suspect, taken_back
from autotune.tune.minimal import Minimal
from autotune.tune.search import speeds
from autotune.verify import history


def winner(made: Search, stopped: str) -> Tuned:
    """The winner of the study's trials, if there is one; `stopped` says why the search made no more of them.

    Where losses are other than they should be, an axis that they may come from is taken back, and the rest proven,
    while the time holds that.
    """
    found = made.trials.space
    tuned = unproven = Tuned(found, (), {}, None, stopped, 0.0, 0.0)
    others: dict[str, tuple[LeftOut, ...]] = {}
    also: tuple[Candidate, ...] = ()
    while (choice := _choice(made, others, also)).least.candidate != found.current:
        chosen = choice.least.candidate
        why = proof.scaled(made.trials, chosen)
        if not why:
            tuned = _proven(made, choice, unproven)
            if tuned.verified is None or not proof.differs(tuned.verified):
                break
            why = tuned.verified.losses.why
        axis = suspect(found, chosen)
        others[axis.name] = tuple(_taken_back(made, chosen, axis, why))
        also = tuple(taken_back(found, one.candidate, others) for one in (choice.fastest, choice.least))
        if tuned.verified is not None and not made.holds_proof():
            break
    dropped = [one for each in (_dropped(choice), *others.values()) for one in each if one.setting not in tuned.best]
    lost = tuple(one.setting for each in others.values() for one in each)
    return replace(tuned, trials=made.study.trials(), dropped=tuple(dropped), other_losses=lost)


def _choice(made: Search, fixed: Collection[str], also: Sequence[Candidate]) -> Choice:
    space, known = made.trials.space, made.study.trials()
    return choose(space, made.forecast, known, made.tried, lambda one: proof.by_hand(made.trials, one), fixed, also)


def _dropped(choice: Choice) -> tuple[LeftOut, ...]:
    """What brings nothing, of the fastest and of the one that is proven."""
    return tuple({one.setting: one for one in (*choice.fastest.dropped, *choice.least.dropped)}.values())


def _taken_back(made: Search, chosen: Candidate, axis: Axis, why: str) -> Iterator[LeftOut]:
    for name in made.trials.space.changes(chosen):
        if any(name in point for point in axis.points):
            yield LeftOut(name, f"taken back: the losses were not what they have to be, which may come from it: {why}")


def _proven(made: Search, choice: Choice, unproven: Tuned) -> Tuned:
    """`unproven` with what the proof says of the chosen one, and its patch where it won."""
    chosen = choice.least.candidate
    try:
        verified = proof.proven(made.trials, chosen, _left_s(made, chosen), made.watch.proving)
    except (UsageError, ScriptError) as error:
        made.watch.said(made.trials.said)
        return replace(unproven, notes=(_unproven(made, chosen, error),))
    changes = tuple(_with_gain(change, choice.least) for change in proof.whole(verified.changes))
    verified = replace(verified, changes=changes, predicted=_predicted(made, chosen))
    tuned = replace(unproven, by_hand=tuple(_by_hand(made, choice)))
    if proof.has_won(verified):
        tuned = replace(tuned, best=made.trials.space.changes(chosen), patch=_patched(made, changes))
    return replace(tuned, verified=history.kept(made.trials.place.root, made.kept.folder.name, verified))


def _left_s(made: Search, chosen: Candidate) -> float:
    """Seconds for its proof: where its losses may turn out to be others, a second proof is kept if there is time."""
    left_s, space = made.left_s or 0.0, made.trials.space
    is_in_doubt = space.touches_learning(space.changes(chosen)) and left_s > 2 * made.proof_s
    return left_s - made.proof_s if is_in_doubt else left_s


def _by_hand(made: Search, choice: Choice) -> Iterator[PatchChange]:
    """What a person could change beside the chosen one, by the trials or as expected after them."""
    fastest = choice.fastest
    if fastest.candidate != choice.least.candidate:
        for change in patch.coupled(made.trials.overlay(fastest.candidate).changes):
            share = fastest.brings.get(change.setting, 0.0)
            if change.by_hand and share > NOISE:
                yield _with_gain(change, fastest)


def _unproven(made: Search, chosen: Candidate, error: AutotuneError) -> str:
    """How fast the chosen one was in the trials, and why that is not proven."""
    found, trials = made.trials.space, made.study.trials()
    own = [trial for trial in trials if trial.candidate == found.current]
    its = [trial for trial in trials if trial.candidate == chosen]
    if own and its and all(trial.outcome is Outcome.OUT_OF_MEMORY for trial in own):
        return _fits(changed(found.changes(chosen)), own[0], its[0])
    new, old = ([speed for one, speed in speeds(trials) if one == each] for each in (chosen, found.current))
    ratio = (
        f" was {fmean(new) / fmean(old):.2f}x as fast as the baseline in the trials, but that" if new and old else ""
    )
    return f"{changed(found.changes(chosen))}{ratio} is not confirmed: {error.what}"


def _fits(settings: str, own: Trial, its: Trial) -> str:
    """What to do where the user's own settings are at the limit of the memory."""
    used = f" in {size(its.memory_bytes)}" if its.memory_bytes is not None else ""
    pace = f" at {step_time(its.step_ms)} per step" if its.step_ms is not None else ""
    return (
        f"the baseline ran in the diagnosis, but ran out of memory in trial {own.number} "
        f"({own.error}); {settings} ran{used}{pace}, with the same global batch: set that, or free memory"
    )


def _with_gain(change: PatchChange, of: Minimal) -> PatchChange:
    share = of.brings.get(change.setting, 0.0)
    brings = f"{percent(share)} of the speed"
    told = f"brings {brings}, by the trials" if change.setting in of.measured else f"is expected to bring {brings}"
    return replace(change, gain=told if share > 0 else "")


def _predicted(made: Search, chosen: Candidate) -> Gain | None:
    """What the diagnosis let expect of the chosen one; None where it knows not all of the changes."""
    expected, step = made.forecast(made.trials.space.settings(chosen)), made.report.step
    if expected is None or expected.unmodelled or step is None:
        return None
    now = step.mean_ms
    return Gain(now / expected.ms, now / expected.high_ms, now / expected.low_ms, expected.basis)


def _patched(made: Search, changes: Sequence[PatchChange]) -> str:
    """Write what `apply` takes: the changes that were proven together, with their edits or all of them by hand."""
    root, folder = made.trials.place.root, made.kept.folder
    relative = tuple(patching.relative(changes, root))
    artefacts.write_patch(folder / NAME, dumps(Patch(str(root), folder.name, made.report.run.command, relative)))
    return str(folder / NAME)
