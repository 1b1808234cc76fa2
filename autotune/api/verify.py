"""verify: from a command and a change to what was measured of it, before and after."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotune import collect, machine
from autotune.api import apply, compared, outcome, remembered, resume
from autotune.collect import artefacts, leftovers, lock, progress
from autotune.errors import AutotuneError, InternalError, ScriptError, UsageError
from autotune.invocation import invoked
from autotune.machine.signals import cleaned_up
from autotune.model.derived import Derived
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.verified import AFTER, SIDES, Resume, Resumed, Schedule, Start, Verified
from autotune.outlet import tell
from autotune.verify import history, rounds, scratch
from autotune.verify.contention import unseen
from autotune.verify.pairs import Pairs
from autotune.verify.schedule import REHEARSED_STEPS, schedule
from autotune.verify.sides import Sides
from autotune.verify.starts import Ran, Runner, free, one_hash
from autotune.verify.summary import summarise

Announce = Callable[[Schedule, float, str], None]
"""Told before the starts are made: the schedule, the seconds that the rehearsals took, and what is compared."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for. `patch` is a patch file, a run, "last", or the number of a written patch; None is the
    last run's patch, written or not.

    `against` is another script; `loss_steps` the least steps whose losses are compared; the rest is as in apply and
    diagnose.
    """

    words: tuple[str, ...]
    budget_s: float = 60.0
    patch: str | None = None
    against: str | None = None
    select: tuple[str, ...] = ()
    allow: frozenset[Effect] = field(default_factory=frozenset)
    loss_steps: int | None = None
    python: str | None = None
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
) -> Verified:
    """Measure the command with and without the change, in turns.

    Raises UsageError when there is nothing to compare or the budget is too small, ScriptError when a side failed.
    """
    called = invoked(options.words, cwd, environ)
    root = artefacts.command_root(cwd, called.file)
    leftovers.remove_leftovers(root)
    sides, run = _sides(options, root, cwd)
    python, _ = machine.find_python(options.words, options.python, environ, cwd)
    with (
        cleaned_up(),
        lock.one_measurement(called.title) if options.lock else nullcontext(),
        scratch.mirrored(root, sides.edited) as mirrors,
    ):
        runner = Runner(root, cwd, one_hash(environ), python, sides, mirrors, show)
        began = time.monotonic()
        rehearsed, notes, trial = _rehearse(runner, options.budget_s)
        spent_s = time.monotonic() - began
        planned, trial = _planned(options, rehearsed, spent_s, trial)
        announce(replace(planned, seconds=planned.seconds + trial.seconds), spent_s, sides.against)
        request = collect.Request(
            steps=planned.steps, warmup=planned.warmup, what_ifs=False, time_limit_s=options.budget_s
        )
        ends_at = began + options.budget_s
        starts, made, again = _made(runner, request, planned, rehearsed, ends_at - trial.seconds)
        notes = (*notes, *again)
        verified = history.kept(root, run, summarise(sides, starts, made, time.monotonic() - began, notes))
        tried = _resume(runner, trial, ends_at)
        return replace(verified, resume=tried, seconds=time.monotonic() - began)


def _made(
    runner: Runner, request: collect.Request, planned: Schedule, rehearsed: Sequence[Start], deadline: float
) -> tuple[list[Start], Schedule, tuple[str, ...]]:
    """The starts, what was made of the schedule, and a note on those that were made once more."""
    every: list[Start] = []
    pairs = Pairs(runner, planned.turns)

    def run(pair: tuple[str, str]) -> list[Start]:
        ran = pairs.make(dict.fromkeys(pair, request))
        every.extend(_checked(runner, side, ran[side])[1] for side in pair)
        return every[-2:]

    starts = rounds.make(run, planned, rehearsed, deadline)
    made = replace(planned, order=tuple(start.side for start in starts), turns=pairs.turns)
    again = len(every) - len(starts)
    words = f"other work crowded pairs of {again} more starts, which were made once more and do not count"
    return starts, made, (words,) if again else ()


def _resume(runner: Runner, trial: resume.Trial, ends_at: float) -> Resume:
    if trial.why_not:
        return Resume(Resumed.NOT_TRIED, trial.why_not)
    return resume.tried(runner, trial.seconds, ends_at)


def _planned(
    options: Options, rehearsed: list[Start], spent_s: float, trial: resume.Trial
) -> tuple[Schedule, resume.Trial]:
    """The schedule, and the trial of a resume if the budget holds both: the starts come first. Raises UsageError for a
    budget that is too small, BusyError when that is the work of others."""
    try:
        return _scheduled(options, rehearsed, spent_s + trial.seconds), trial
    except UsageError:
        why = trial.why_not or "the budget does not hold it: save and resume once by hand before a long run"
    try:
        return _scheduled(options, rehearsed, spent_s), resume.Trial(why)
    except UsageError:
        rounds.refuse_disturbed(rehearsed)
        raise


def _scheduled(options: Options, rehearsed: Sequence[Start], spent_s: float) -> Schedule:
    return schedule(rehearsed, options.budget_s, spent_s, options.loss_steps, free())


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


def _rehearse(runner: Runner, budget_s: float) -> tuple[list[Start], tuple[str, ...], resume.Trial]:
    """One start of each side that does not count: it fills caches, and tells what a start costs."""
    request = collect.Request(steps=REHEARSED_STEPS, what_ifs=False, startup_limit_s=budget_s, time_limit_s=budget_s)
    rehearsed = [_started(runner, side, request) for side in SIDES]
    starts = [start for _, start, _ in rehearsed]
    notes = _not_reached(runner.sides.changes, *(derived for _, _, derived in rehearsed))
    return starts, (*notes, *unseen(starts)), _trial(runner, *rehearsed[-1][:2])


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
        raise _too_slow("made no optimizer step in", collected.wall_s)
    run = outcome.summarise(collected, words, runner.python, "", False, runner.cwd)
    if run.error and not collected.bugs:
        raise _failed(side, runner.told(run.error), words)
    if start is None and collected.ended_by in ("probe", "time_limit") and not collected.bugs:
        raise _too_slow("measured no step in", collected.wall_s)
    outcome.check(run, collected)
    if start is None or derived is None or run.outcome not in ("completed", "ended_early"):
        raise _failed(side, run.outcome, words)
    return collected, start, derived


def _too_slow(what: str, seconds: float) -> UsageError:
    return UsageError(
        f"it {what} {seconds:.0f} s, and about ten starts are needed",
        where="--budget",
        to_do="Give it a budget that holds ten starts.",
    )


def _failed(side: str, why: str, words: tuple[str, ...]) -> ScriptError:
    which, unwritten = ("changed", " Your files are as they were.") if side == AFTER else ("unchanged", "")
    return ScriptError(
        f"the {which} script failed: {why}", where=words[0], to_do=f"Its own message stands above.{unwritten}"
    )


def _not_reached(changes: Iterable[PatchChange], before: Derived, after: Derived) -> Iterator[str]:
    """Changes that make no difference: both sides ran with the same value."""
    old, new = ({(one.subject, one.name): one.value for one in derived.settings} for derived in (before, after))
    for change in changes:
        at = (change.subject, change.setting)
        if change.edits and at in new and old.get(at) == new[at]:
            yield f"{change.setting} was {new[at]} on both sides: the edit did not reach the run"
