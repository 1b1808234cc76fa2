"""verify: from a command and a change to what was measured of it, before and after."""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotune import collect, machine
from autotune.api import apply, diagnose, outcome
from autotune.collect import artefacts, leftovers, lock, progress
from autotune.errors import ScriptError, UsageError
from autotune.model.derived import Derived
from autotune.model.finding import Gain
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.verified import AFTER, SIDES, Memory, Schedule, Start, Verified
from autotune.patch import journal as journals
from autotune.patch.file import NAME, loads
from autotune.report.gains import combined
from autotune.verify import estimate, history, losses, schedule, scratch, sides, verdict
from autotune.verify.sides import Sides
from autotune.verify.starts import Runner

Announce = Callable[[Schedule, float], None]
"""Told before the starts are made: the schedule, and the seconds that the rehearsals took."""

_RUN = re.compile(r"^(\d+) of \d+ changes of run (\S+)$")
_SAME_SAMPLES = 0.01
"""Samples per step that differ by less are the same: the last batch of an epoch is shorter."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for. `patch` is a patch file, a run or "last"; None looks at what was applied as well.

    `against` is another script; `loss_steps` the least steps whose losses are compared; `stdout` as in diagnose.
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
    compared, run = _sides(options, root, cwd)
    for path in compared.edited:
        if not path.is_relative_to(root):
            raise _outside(path, root)
    python, _ = machine.find_python(options.words, options.python, environ, cwd)
    with (
        lock.one_measurement(Path(options.words[0]).name) if options.lock else nullcontext(),
        scratch.mirrored(root, compared.edited) as mirror,
    ):
        runner = Runner(root, cwd, environ, python, compared, mirror, show)
        began = time.monotonic()
        rehearsed, notes = _rehearse(runner, options.budget_s)
        spent_s = time.monotonic() - began
        planned = schedule.schedule(rehearsed, options.budget_s, spent_s, options.loss_steps)
        announce(planned, spent_s)
        request = collect.Request(steps=planned.steps, warmup=planned.warmup, what_ifs=False)
        starts = [_started(runner, side, request)[0] for side in planned.order]
        seconds = time.monotonic() - began
    verified = _verified(options, compared, starts, planned, seconds, notes)
    history.append(root, verified, run)
    return verified


def _sides(options: Options, root: Path, cwd: Path) -> tuple[Sides, str]:
    """What is compared, and the run whose patch it is ("" for another script)."""
    if not options.words:
        raise UsageError("no script was given", to_do="Type: autotune verify train.py [ARGS...]")
    if options.against is not None:
        return sides.other(options.words, options.against), ""
    try:
        return _patched(options, cwd)
    except UsageError:
        applied = _applied(options, root) if options.patch is None else None
        if applied is None:
            raise
        return applied


def _patched(options: Options, cwd: Path) -> tuple[Sides, str]:
    """A patch file, not written yet."""
    planned = apply.plan(apply.Options(options.patch or "last", options.select, options.allow), cwd=cwd)
    name = _RUN.match(planned.title)
    run = name[2] if name else ""
    compared = sides.patched(options.words, planned.chosen, planned.files, planned.title)
    return replace(compared, predicted=_predicted(planned.chosen, run, planned.root)), run


def _applied(options: Options, root: Path) -> tuple[Sides, str] | None:
    """The newest patch that was written, when the files are still as it left them."""
    found = [one for one in journals.journals(root / apply.PATCHES) if sides.is_current(one)]
    if not found:
        return None
    name = _RUN.match(found[-1].title)
    run = name[2] if name else ""
    changes = _changes_of(root, run, int(name[1])) if name else ()
    compared = sides.written(options.words, found[-1], changes)
    return replace(compared, predicted=_predicted(changes, run, root)), run


def _changes_of(root: Path, run: str, num: int) -> tuple[PatchChange, ...]:
    """The changes of a run's patch that were written: the safe ones when there are as many, else all with edits."""
    file = root / ".autotune" / "runs" / run / NAME
    if not file.is_file():
        return ()
    edited = [change for change in loads(file.read_bytes(), str(file)).changes if change.edits]
    safe = [change for change in edited if change.effect in apply.SAFE]
    return tuple(safe if len(safe) == num else edited)


def _predicted(changes: Iterable[PatchChange], run: str, root: Path) -> Gain | None:
    """What the diagnosis expected of the changes together; a bound is no prediction."""
    rules = {rule for change in changes for rule in change.rules}
    folder = root / ".autotune" / "runs" / run
    if not run or not folder.is_dir():
        return None
    try:
        report = diagnose.load(str(folder), cwd=root)
    except UsageError:
        return None
    of = [one for one in report.recommendations if any(finding.rule.id in rules for finding in one.findings)]
    gain = combined(of)
    return gain if gain is not None and gain.basis != "bound" else None


def _outside(path: Path, root: Path) -> UsageError:
    return UsageError(
        f"it lies outside the project {root}, so it cannot be changed in a copy",
        where=str(path),
        to_do="Start autotune in a folder that holds all of the files.",
    )


def _rehearse(runner: Runner, budget_s: float) -> tuple[list[Start], tuple[str, ...]]:
    """One start of each side that does not count: it fills caches, and tells what a start costs."""
    request = collect.Request(
        steps=schedule.REHEARSED_STEPS, what_ifs=False, startup_limit_s=budget_s, time_limit_s=budget_s
    )
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
    outcome.check(run, collected)
    if start is None or derived is None or run.outcome not in ("completed", "ended_early"):
        which = "changed" if side == AFTER else "unchanged"
        raise ScriptError(
            f"the {which} script failed: {runner.told(run.error) or run.outcome}",
            where=words[0],
            to_do=f"Its own message stands above.{_unwritten(side)}",
        )
    return start, derived


def _unwritten(side: str) -> str:
    return " It ran on a copy: your files are as they were." if side == AFTER else ""


def _not_reached(changes: Iterable[PatchChange], before: Derived, after: Derived) -> Iterator[str]:
    """Changes that the changed side did not get: it still ran with the old value."""
    old, new = ({(one.subject, one.name): one.value for one in derived.settings} for derived in (before, after))
    for change in changes:
        at = (change.subject, change.setting)
        if change.edits and at in new and old.get(at) == new[at] != change.new:
            yield f"{change.setting} was {new[at]} on both sides: the edit did not reach the run"


def _verified(
    options: Options,
    compared: Sides,
    starts: Sequence[Start],
    planned: Schedule,
    seconds: float,
    notes: tuple[str, ...],
) -> Verified:
    before, after = schedule.paired(starts)
    per_sample = _scales(before, after)
    times = [
        [start.step_ms / (start.samples if per_sample and start.samples else 1) for start in side]
        for side in (before, after)
    ]
    found = estimate.estimate(*times)
    said, why = verdict.verdict(found, starts)
    return Verified(
        command=options.words,
        against=compared.against,
        changes=compared.changes,
        verdict=said,
        why=why,
        estimate=found,
        step_ms=_medians([start.step_ms for start in side] for side in (before, after)),
        is_per_sample=per_sample,
        losses=losses.compare([one.losses for one in before], [one.losses for one in after], compared.effect),
        memory=_memory(before, after),
        schedule=planned,
        seconds=seconds,
        predicted=compared.predicted,
        notes=notes,
    )


def _scales(before: Sequence[Start], after: Sequence[Start]) -> bool:
    """Whether the steps of both sides hold other numbers of samples: then the time of a sample is compared."""
    known = [[start.samples for start in side if start.samples] for side in (before, after)]
    if any(len(side) != len(before) for side in known):
        return False
    old, new = (statistics.median(side) for side in known)
    return abs(new / old - 1) > _SAME_SAMPLES


def _memory(before: Sequence[Start], after: Sequence[Start]) -> Memory:
    of = "device" if all(start.is_on_device for start in (*before, *after)) else "processes"
    peaks = [[start.memory_bytes for start in side if start.memory_bytes is not None] for side in (before, after)]
    old, new = (round(statistics.median(side)) if side else None for side in peaks)
    return Memory(of, old, new)


def _medians(sides_: Iterable[Sequence[float]]) -> tuple[float, float]:
    before, after = (statistics.median(side) for side in sides_)
    return before, after
