"""verify: from a command and a change to what was measured of it, before and after."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import collect, machine
from autotune.api import apply, compared, outcome, remembered, resume
from autotune.collect import artefacts, leftovers, lock, progress
from autotune.errors import AutotuneError, InternalError, ScriptError, UsageError
from autotune.invocation import invoked
from autotune.machine.signals import cleaned_up
from autotune.model.derived import Derived
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.verified import AFTER, BEFORE, SIDES, Resume, Resumed, Schedule, Start, Verified
from autotune.outlet import tell
from autotune.verify import beforehand, history, kept, rounds, scratch, summary
from autotune.verify.contention import unseen
from autotune.verify.pairs import Pairs
from autotune.verify.schedule import REHEARSED_STEPS, Pair, more, schedule
from autotune.verify.sides import Sides
from autotune.verify.starts import HASH_SEED, Ran, Runner, free, one_hash

Announce = Callable[[Schedule, float, str], None]
"""Told before the starts are made: the schedule, the seconds that the rehearsals took, and what is compared."""


class Options(Struct, frozen=True):
    """What the user asked for. `patch` is a patch file, a run, "last", or the number of a written patch; None is the
    last run's patch, written or not.

    `against` is another script; `loss_steps` the least steps whose losses are compared; `resume` goes on from the pairs
    of the last verification of the same command and change; the rest is as in apply and diagnose.
    """

    words: tuple[str, ...]
    budget_s: float = 60.0
    patch: str | None = None
    against: str | None = None
    select: tuple[str, ...] = ()
    allow: frozenset[Effect] = field(default_factory=frozenset)
    loss_steps: int | None = None
    python: str | None = None
    resume: bool = False
    lock: bool = True


def run_of(patch: str | None, cwd: Path) -> str:
    """The run whose command a patch is of: the one that --patch names, that of a written patch, else the last."""
    if patch is None or (cwd / patch).is_file():
        return "last"
    return compared.run_of(int(patch), cwd) or "last" if patch.isdecimal() else patch


def verify(
    options: Options,
    announce: Announce,
    show: Callable[[progress.Status], None],
    *,
    cwd: Path,
    environ: Mapping[str, str] = os.environ,
    begins: Callable[[], None] = lambda: None,
) -> Verified:
    """Measure the command with and without the change, in turns. `begins` is called once it is known that there is
    something to measure.

    Raises UsageError when there is nothing to compare or the budget is too small, ScriptError when a side failed.
    """
    called = invoked(options.words, cwd, environ)
    root = artefacts.command_root(cwd, called.file)
    leftovers.remove_leftovers(root)
    sides, run = _sides(options, root, cwd)
    python, _ = machine.find_python(options.words, options.python, environ, cwd)
    place, known = _known(options, sides, run, root, cwd, kept.conditions(root, sides, python, environ))
    with (
        cleaned_up(),
        lock.one_measurement(called.title) if options.lock else nullcontext(),
        scratch.mirrored(root, sides.edited) as mirrors,
    ):
        seeded = {**environ, HASH_SEED: known.hash_seed or one_hash(environ)[HASH_SEED]}
        runner = Runner(root, cwd, seeded, python, sides, mirrors, show)
        began = time.monotonic()
        begins()
        known = _rehearsed(runner, place, replace(known, hash_seed=seeded[HASH_SEED]), options, began)
        place.save(known)
        spent_s = time.monotonic() - began
        planned, trial = _planned(options, known, spent_s)
        announce(replace(planned, seconds=planned.seconds + trial.seconds), spent_s, sides.against)
        ends_at = began + options.budget_s
        known = _made(runner, place, replace(known, planned=planned), options.budget_s, ends_at - trial.seconds)
        verified = _summarised(sides, known, time.monotonic() - began)
        verified = history.kept(root, run, verified)
        tried = _resume(runner, trial, known, ends_at)
        place.save(replace(known, resume=tried))
        notes = (*verified.notes, *filter(None, [place.why_not]))
        return replace(verified, resume=tried, notes=notes, seconds=time.monotonic() - began)


def _known(
    options: Options, sides: Sides, run: str, root: Path, cwd: Path, conditions: Mapping[str, str]
) -> tuple[kept.Place, kept.Kept]:
    """The file of the verification, and its stored pairs: none for a new verification.

    Raises UsageError for a budget that cannot suffice, by the last verification of the same or by the diagnosis.
    """
    place = kept.place(root, sides)
    last = place.load()
    if options.resume:
        return place, kept.resumed(last, conditions)
    if last is not None and last.rehearsed and last.conditions == conditions:
        beforehand.refuse(options.budget_s, last.rehearsed[0], options.loss_steps, "by its last verification")
    elif (seen := _diagnosed(options.words, run, root, cwd)) is not None:
        beforehand.refuse(options.budget_s, seen.start, options.loss_steps, f"by the diagnosis {seen.run}")
    return place, kept.Kept(conditions)


def _diagnosed(words: tuple[str, ...], run: str, root: Path, cwd: Path) -> beforehand.Seen | None:
    """What a diagnosis saw of a start: that of `run`, of its search, or the newest one of the same command."""
    of_search = artefacts.diagnosed_by(compared.folder(root, run)) if run else ""
    return beforehand.newest(root, (run, of_search, *remembered.runs(words, cwd, root)))


def _made(runner: Runner, place: kept.Place, known: kept.Kept, budget_s: float, deadline: float) -> kept.Kept:
    """With the pairs of its plan, and of more looks while they do not tell; every pair is kept at once."""
    planned = known.plan
    request = collect.Request(steps=planned.steps, warmup=planned.warmup, what_ifs=False, time_limit_s=budget_s)
    pairs = Pairs(runner, planned.turns)
    first, starts = known.looks + 1, list(known.starts)

    def at(look: int) -> kept.Kept:
        return replace(known, planned=replace(planned, turns=pairs.turns), starts=tuple(starts), looks=look)

    def run(pair: Pair) -> list[Start]:
        ran = pairs.make(dict.fromkeys(pair, request))
        starts.extend(_checked(runner, side, ran[side])[1] for side in pair)
        place.save(at(known.looks))
        return starts[-2:]

    def is_told(every: Sequence[Start], look: int) -> bool:
        return summary.is_told(every, at(look).plan, known.rehearsed, look)

    num, pair_s = len(planned.order) // 2, planned.pair_s
    _, looks = rounds.make(run, num, pair_s, deadline, is_told, made=known.starts, look=first)
    return at(looks)


def _summarised(sides: Sides, known: kept.Kept, seconds: float) -> Verified:
    """Raises UsageError for too few pairs."""
    rounds.refuse_few(known.starts, seconds, known.plan.pair_s)
    made = replace(known.plan, order=tuple(start.side for start in known.starts))
    return summary.summarise(sides, known.starts, made, seconds, known.notes, known.rehearsed, known.looks)


def _resume(runner: Runner, trial: resume.Trial, known: kept.Kept, ends_at: float) -> Resume:
    """That of before, where the verification goes on and it was tried."""
    if known.resume is not None and known.resume.result is not Resumed.NOT_TRIED:
        return known.resume
    if trial.why_not:
        return Resume(Resumed.NOT_TRIED, trial.why_not)
    return resume.tried(runner, trial.seconds, ends_at)


def _planned(options: Options, known: kept.Kept, spent_s: float) -> tuple[Schedule, resume.Trial]:
    """The schedule, and the trial of a resume if the budget holds both: the starts come first. Raises UsageError for a
    budget that is too small."""
    trial = resume.Trial(known.trial_why, known.trial_s)
    try:
        return _scheduled(options, known, spent_s + trial.seconds), trial
    except UsageError:
        why = trial.why_not or "the budget does not hold it: save and resume once by hand before a long run"
    return _scheduled(options, known, spent_s), resume.Trial(why)


def _scheduled(options: Options, known: kept.Kept, spent_s: float) -> Schedule:
    """Of a verification that goes on as many more pairs as the budget holds, like those before."""
    if known.starts:
        return more(known.plan, len(known.starts) // 2, options.budget_s, spent_s)
    return schedule(known.rehearsed, options.budget_s, spent_s, options.loss_steps, free())


def _sides(options: Options, root: Path, cwd: Path) -> tuple[Sides, str]:
    """What is compared, and the run whose patch it is ("" for another script)."""
    if not options.words:
        raise UsageError("no script was given", to_do="Type: autotune verify train.py [ARGS...]")
    if options.against is not None:
        return compared.other(options.words, options.against)
    name = options.patch or remembered.of_command(options.words, cwd)
    wanted = apply.Options(name, options.select, options.allow)
    of = compared.of_last if options.patch is None else compared.named
    return of(options.words, wanted, root, cwd)


def _rehearsed(runner: Runner, place: kept.Place, known: kept.Kept, options: Options, began: float) -> kept.Kept:
    """With one start of each side that does not count: it fills caches, and tells what a start costs.

    Raises UsageError after the first where the budget cannot suffice: that start is kept, so that the next budget is
    judged by it before anything runs.
    """
    if len(known.rehearsed) == len(SIDES):
        return known
    _, first, of_first = _started(runner, BEFORE, _rehearsal(options.budget_s))
    try:
        beforehand.refuse(options.budget_s, first, options.loss_steps, "by its first one")
    except UsageError:
        place.save(replace(known, rehearsed=(first,)))
        raise
    left_s = max(1.0, options.budget_s - (time.monotonic() - began))
    after, second, of_second = _started(runner, AFTER, _rehearsal(left_s))
    trial = _trial(runner, after, second)
    notes = (*_not_reached(runner.sides.changes, of_first, of_second), *unseen([first, second]))
    return replace(known, rehearsed=(first, second), notes=notes, trial_why=trial.why_not, trial_s=trial.seconds)


def _rehearsal(limit_s: float) -> collect.Request:
    return collect.Request(steps=REHEARSED_STEPS, what_ifs=False, startup_limit_s=limit_s, time_limit_s=limit_s)


def _trial(runner: Runner, collected: collect.Collected, start: Start) -> resume.Trial:
    return resume.trial(collected.recordings[0], start, machine.free_bytes(runner.root))


def _started(runner: Runner, side: str, request: collect.Request) -> tuple[collect.Collected, Start, Derived]:
    """One start that went well. Raises ScriptError for one that did not, InternalError for a bug of ours."""
    return _checked(runner, side, runner.run(side, request))


def _checked(runner: Runner, side: str, ran: Ran) -> tuple[collect.Collected, Start, Derived]:
    try:
        return _gone_well(runner, side, *ran)
    except (AutotuneError, InternalError):
        tell(runner.told(ran[0].said))
        raise


def _gone_well(
    runner: Runner, side: str, collected: collect.Collected, start: Start | None, derived: Derived | None
) -> tuple[collect.Collected, Start, Derived]:
    words = runner.sides.words[side]
    if collected.ended_by == "startup_limit":
        raise _too_slow("reached no optimizer step in", collected.wall_s)
    run = outcome.summarise(collected, words, runner.python, "", False, runner.cwd)
    if run.error and not collected.bugs:
        raise _failed(side, runner.told(run.error), words, collected)
    if start is None and collected.ended_by in ("probe", "time_limit") and not collected.bugs:
        raise _too_slow("measured no step in", collected.wall_s)
    outcome.check(run, collected)
    if start is None or derived is None or run.outcome not in ("completed", "ended_early"):
        raise _failed(side, run.outcome, words, collected)
    return collected, start, derived


def _too_slow(what: str, seconds: float) -> UsageError:
    return UsageError(
        f"it {what} {seconds:.0f} s, and about ten runs are needed",
        where="--budget",
        to_do="Give it a budget for ten runs.",
    )


def _failed(side: str, why: str, words: tuple[str, ...], collected: collect.Collected) -> ScriptError:
    which, unwritten = ("changed", " Your files are unchanged.") if side == AFTER else ("unchanged", "")
    return ScriptError(
        f"the {which} script failed: {why}",
        where=words[0],
        to_do=f"Its own message is above.{unwritten}",
        status=collected.exit_code,
        said=collected.said,
    )


def _not_reached(changes: Iterable[PatchChange], before: Derived, after: Derived) -> Iterator[str]:
    """Changes that make no difference: both sides ran with the same value."""
    old, new = ({(one.subject, one.name): one.value for one in derived.settings} for derived in (before, after))
    for change in changes:
        at = (change.subject, change.setting)
        if change.edits and at in new and old.get(at) == new[at]:
            yield f"{change.setting} was {new[at]} on both sides: the edit did not reach the run"
