"""verify: from a command and a change to what was measured of it, before and after."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from autotune import collect, machine
from autotune.api import apply, compared, outcome
from autotune.collect import artefacts, leftovers, lock, progress
from autotune.errors import ScriptError, UsageError
from autotune.model.derived import Derived
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.verified import AFTER, SIDES, Schedule, Start, Verified
from autotune.verify import history, scratch
from autotune.verify.schedule import REHEARSED_STEPS, schedule
from autotune.verify.sides import Sides
from autotune.verify.starts import Runner
from autotune.verify.summary import summarise

Announce = Callable[[Schedule, float], None]
"""Told before the starts are made: the schedule, and the seconds that the rehearsals took."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for. `patch` is a patch file, a run or "last"; None looks at what was applied as well.

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
    root = artefacts.project_root(cwd)
    leftovers.remove_leftovers(root)
    sides, run = _sides(options, root, cwd)
    python, _ = machine.find_python(options.words, options.python, environ, cwd)
    with (
        lock.one_measurement(Path(options.words[0]).name) if options.lock else nullcontext(),
        scratch.mirrored(root, sides.edited) as mirror,
    ):
        runner = Runner(root, cwd, environ, python, sides, mirror, show)
        began = time.monotonic()
        rehearsed, notes = _rehearse(runner, options.budget_s)
        spent_s = time.monotonic() - began
        planned = schedule(rehearsed, options.budget_s, spent_s, options.loss_steps)
        announce(planned, spent_s)
        request = collect.Request(steps=planned.steps, warmup=planned.warmup, what_ifs=False)
        starts = [_started(runner, side, request)[0] for side in planned.order]
        seconds = time.monotonic() - began
    verified = summarise(sides, starts, planned, seconds, notes)
    history.append(root, run, verified.predicted, verified.verdict, verified.estimate)
    return verified


def _sides(options: Options, root: Path, cwd: Path) -> tuple[Sides, str]:
    """What is compared, and the run whose patch it is ("" for another script)."""
    if not options.words:
        raise UsageError("no script was given", to_do="Type: autotune verify train.py [ARGS...]")
    if options.against is not None:
        return compared.other(options.words, options.against)
    wanted = apply.Options(options.patch or "last", options.select, options.allow)
    try:
        sides, run = compared.patched(options.words, wanted, cwd)
    except UsageError:
        found = compared.written(options.words, root) if options.patch is None else None
        if found is None:
            raise
        sides, run = found
    _check(sides.edited, root)
    return sides, run


def _check(edited: Iterable[Path], root: Path) -> None:
    for path in edited:
        if not path.is_relative_to(root):
            raise UsageError(
                f"it lies outside the project {root}, so it cannot be changed in a copy",
                where=str(path),
                to_do="Start autotune in a folder that holds all of the files.",
            )


def _rehearse(runner: Runner, budget_s: float) -> tuple[list[Start], tuple[str, ...]]:
    """One start of each side that does not count: it fills caches, and tells what a start costs."""
    request = collect.Request(steps=REHEARSED_STEPS, what_ifs=False, startup_limit_s=budget_s, time_limit_s=budget_s)
    rehearsed = [_started(runner, side, request) for side in SIDES]
    notes = _not_reached(runner.sides.changes, *(derived for _, derived in rehearsed))
    return [start for start, _ in rehearsed], tuple(notes)


def _started(runner: Runner, side: str, request: collect.Request) -> tuple[Start, Derived]:
    """One start that went well. Raises ScriptError for one that did not, InternalError for a bug of ours."""
    words = runner.sides.words[side]
    collected, start, derived = runner.run(side, request)
    if collected.ended_by == "startup_limit":
        raise UsageError(
            f"it made no optimizer step in {collected.wall_s:.0f} s, and about ten starts are needed",
            where="--budget",
            to_do="Give it a budget that holds ten starts.",
        )
    run = outcome.summarise(collected, words, runner.python, "", False, runner.cwd)
    if run.error and not collected.bugs:
        raise _failed(side, runner.told(run.error), words)
    outcome.check(run, collected)
    if start is None or derived is None or run.outcome not in ("completed", "ended_early"):
        raise _failed(side, run.outcome, words)
    return start, derived


def _failed(side: str, why: str, words: tuple[str, ...]) -> ScriptError:
    which, unwritten = ("changed", " Your files are as they were.") if side == AFTER else ("unchanged", "")
    return ScriptError(
        f"the {which} script failed: {why}", where=words[0], to_do=f"Its own message stands above.{unwritten}"
    )


def _not_reached(changes: Iterable[PatchChange], before: Derived, after: Derived) -> Iterator[str]:
    """Changes that the changed side did not get: it still ran with the old value."""
    old, new = ({(one.subject, one.name): one.value for one in derived.settings} for derived in (before, after))
    for change in changes:
        at = (change.subject, change.setting)
        if change.edits and at in new and old.get(at) == new[at] != change.new:
            yield f"{change.setting} was {new[at]} on both sides: the edit did not reach the run"
