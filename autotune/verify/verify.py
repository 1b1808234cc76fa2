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
from autotune.apply import apply
from autotune.collect import artefacts, lock, progress, stale_runs
from autotune.diagnose import outcome
from autotune.errors import AutotuneError, InternalError, ScriptError, UsageError
from autotune.history import commands, predictions, results
from autotune.invocation import invoked
from autotune.invocation.redacted import shown
from autotune.machine.signals import terminate_on_signal
from autotune.model.derived import Derived
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.verified import AFTER, BEFORE, SIDES, Resume, Resumed, RunResult, Schedule, Verified
from autotune.outlet import print_stderr
from autotune.report import machine as machine_line
from autotune.verify import budget_check, comparison, pair_store, pairs, resume, scratch, summary
from autotune.verify.disturbances import unobservable_load
from autotune.verify.runs import HASH_SEED, Ran, SideRunner, fixed_hash_seed, free_resources
from autotune.verify.schedule import Pair, more, schedule
from autotune.verify.sides import Sides
from autotune.verify.thresholds import FEWEST_RUNS, REHEARSED_STEPS

Announce = Callable[[Schedule, float, str], None]
"""Called before the pairs are measured: the schedule, the seconds that the rehearsals took, and what is compared."""


class VerifyOptions(Struct, frozen=True):
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
    return comparison.run_of(int(patch), cwd) or "last" if patch.isdecimal() else patch


def verify(
    options: VerifyOptions,
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
    stale_runs.remove_leftovers(root)
    sides, run = _sides(options, root, cwd)
    python, _ = machine.find_python(options.words, options.python, environ, cwd)
    place, known = _stored(options, sides, run, root, cwd, pair_store.conditions(root, sides, python, environ))
    with (
        terminate_on_signal(),
        lock.one_measurement(called.title) if options.lock else nullcontext(),
        scratch.mirrored(root, sides.edited) as mirrors,
    ):
        seeded = {**environ, HASH_SEED: known.hash_seed or fixed_hash_seed(environ)[HASH_SEED]}
        runner = SideRunner(root, cwd, seeded, python, sides, mirrors, show)
        began = time.monotonic()
        begins()
        known = _rehearsed(runner, place, replace(known, hash_seed=seeded[HASH_SEED]), options, began)
        place.save(known)
        spent_s = time.monotonic() - began
        planned, trial = _planned(options, known, spent_s)
        announce(replace(planned, seconds=planned.seconds + trial.seconds), spent_s, sides.against)
        ends_at = began + options.budget_s
        known = _measured(runner, place, replace(known, planned=planned), options.budget_s, ends_at - trial.seconds)
        verified = _summarised(sides, known, time.monotonic() - began)
        verified = predictions.record(root, run, verified)
        tried = _resume(runner, trial, known, ends_at)
        place.save(replace(known, resume=tried))
        notes = (*verified.notes, *filter(None, [place.why_not]))
        day = time.strftime("%Y-%m-%d", time.gmtime())
        verified = replace(
            verified,
            resume=tried,
            notes=notes,
            seconds=time.monotonic() - began,
            day=day,
            command=_without_secrets(options.words, cwd),
            environment=_environment(python, environ),
        )
        # A folder that a clone brought is data: it may be a link to anywhere.
        if comparison.folder(root, run) in artefacts.runs(root):
            results.save_verification(comparison.folder(root, run), verified)
        return verified


def _without_secrets(words: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
    """The whole command where a diagnosis found no secret in it; else only what is started."""
    return words if commands.is_remembered(words, cwd) else shown(words, cwd, None)


def _environment(python: str, environ: Mapping[str, str]) -> str:
    known = {fact.name.removeprefix("machine."): fact.value for fact in machine.facts({}, environ=environ)}
    return machine_line.environment(known, machine.software(python, environ))


def _sides(options: VerifyOptions, root: Path, cwd: Path) -> tuple[Sides, str]:
    """What is compared, and the run whose patch it is ("" for another script)."""
    if not options.words:
        raise UsageError("no script was given", to_do="Type: autotune verify train.py [ARGS...]")
    if options.against is not None:
        return comparison.other_script(options.words, options.against)
    name = options.patch or commands.run_of_command(options.words, cwd)
    wanted = apply.ApplyOptions(name, options.select, options.allow)
    of = comparison.patch_of_last_run if options.patch is None else comparison.patch_by_name
    return of(options.words, wanted, root, cwd)


def _stored(
    options: VerifyOptions, sides: Sides, run: str, root: Path, cwd: Path, conditions: Mapping[str, str]
) -> tuple[pair_store.VerificationFile, pair_store.StoredVerification]:
    """The file of the verification, and its stored pairs: none for a new verification.

    Raises UsageError for a budget that cannot suffice, by the last verification of the same or by the diagnosis.
    """
    place = pair_store.place(root, sides)
    last = place.load()
    if options.resume:
        return place, pair_store.resumed(last, conditions)
    if last is not None and last.rehearsed and last.conditions == conditions:
        budget_check.refuse(options.budget_s, last.rehearsed[0], options.loss_steps, "by its last verification")
    elif (seen := _diagnosed(options.words, run, root, cwd)) is not None:
        budget_check.refuse(options.budget_s, seen.start, options.loss_steps, f"by the diagnosis {seen.run}")
    return place, pair_store.StoredVerification(conditions)


def _diagnosed(words: tuple[str, ...], run: str, root: Path, cwd: Path) -> budget_check.Seen | None:
    """What a diagnosis saw of a start: that of `run`, of its search, or the newest one of the same command."""
    of_search = artefacts.diagnosed_by(comparison.folder(root, run)) if run else ""
    return budget_check.newest(root, (run, of_search, *commands.runs(words, cwd, root)))


def _rehearsed(
    runner: SideRunner,
    place: pair_store.VerificationFile,
    known: pair_store.StoredVerification,
    options: VerifyOptions,
    began: float,
) -> pair_store.StoredVerification:
    """With one run of each side that does not count: it fills caches, and shows what a run costs.

    Raises UsageError after the first where the budget cannot suffice: that run is stored, so that the next budget is
    judged by it before anything runs.
    """
    if len(known.rehearsed) == len(SIDES):
        return known
    _, first, of_first = _run(runner, BEFORE, _rehearsal(options.budget_s))
    try:
        budget_check.refuse(options.budget_s, first, options.loss_steps, "by its first one")
    except UsageError:
        place.save(replace(known, rehearsed=(first,)))
        raise
    left_s = max(1.0, options.budget_s - (time.monotonic() - began))
    after, second, of_second = _run(runner, AFTER, _rehearsal(left_s))
    trial = resume.plan_resume(after.recordings[0], second, machine.free_bytes(runner.root))
    notes = (*_not_reached(runner.sides.changes, of_first, of_second), *unobservable_load([first, second]))
    return replace(known, rehearsed=(first, second), notes=notes, trial_why=trial.why_not, trial_s=trial.seconds)


def _rehearsal(limit_s: float) -> collect.Request:
    return collect.Request(steps=REHEARSED_STEPS, what_ifs=False, startup_limit_s=limit_s, time_limit_s=limit_s)


def _not_reached(changes: Iterable[PatchChange], before: Derived, after: Derived) -> Iterator[str]:
    """Changes that make no difference: both sides ran with the same value."""
    old, new = ({(one.subject, one.name): one.value for one in derived.settings} for derived in (before, after))
    for change in changes:
        at = (change.subject, change.setting)
        if change.edits and at in new and old.get(at) == new[at]:
            yield f"{change.setting} was {new[at]} on both sides: the edit did not reach the run"


def _planned(
    options: VerifyOptions, known: pair_store.StoredVerification, spent_s: float
) -> tuple[Schedule, resume.ResumePlan]:
    """The schedule, and the trial of a resume if the budget holds both: the starts come first. Raises UsageError for a
    budget that is too small."""
    trial = resume.ResumePlan(known.trial_why, known.trial_s)
    try:
        return _scheduled(options, known, spent_s + trial.seconds), trial
    except UsageError:
        why = trial.why_not or "the budget does not hold it: save and resume once by hand before a long run"
    return _scheduled(options, known, spent_s), resume.ResumePlan(why)


def _scheduled(options: VerifyOptions, known: pair_store.StoredVerification, spent_s: float) -> Schedule:
    """Of a verification that goes on as many more pairs as the budget holds, like those before."""
    if known.starts:
        return more(known.plan, len(known.starts) // 2, options.budget_s, spent_s)
    return schedule(known.rehearsed, options.budget_s, spent_s, options.loss_steps, free_resources())


def _measured(
    runner: SideRunner,
    place: pair_store.VerificationFile,
    known: pair_store.StoredVerification,
    budget_s: float,
    deadline: float,
) -> pair_store.StoredVerification:
    """With the pairs of its plan, and more of them while they are inconclusive; every pair and look is stored at once:
    a look that an interruption forgets would be made at the level of the first one again."""
    planned = known.plan
    request = collect.Request(steps=planned.steps, warmup=planned.warmup, what_ifs=False, time_limit_s=budget_s)
    measured, results = pairs.PairRunner(runner, planned.turns), list(known.starts)
    judged = [known.looks]

    def so_far(looks: int) -> pair_store.StoredVerification:
        return replace(known, planned=replace(planned, turns=measured.turns), starts=tuple(results), looks=looks)

    def run(pair: Pair) -> list[RunResult]:
        ran = measured.make(dict.fromkeys(pair, request))
        results.extend(_checked(runner, side, ran[side])[1] for side in pair)
        place.save(so_far(judged[-1]))
        return results[-2:]

    def is_conclusive(every: Sequence[RunResult], look: int) -> bool:
        judged.append(look)
        place.save(so_far(look))
        return summary.is_conclusive(every, known.rehearsed, look)

    _, looks = pairs.measure(
        run,
        len(planned.order) // 2,
        planned.pair_s,
        deadline,
        is_conclusive,
        earlier=known.starts,
        look=known.looks + 1,
    )
    return so_far(looks)


def _summarised(sides: Sides, known: pair_store.StoredVerification, seconds: float) -> Verified:
    """Raises UsageError for too few pairs."""
    pairs.refuse_few(known.starts, seconds, known.plan.pair_s)
    made = replace(known.plan, order=tuple(start.side for start in known.starts))
    return summary.summarise(sides, known.starts, made, seconds, known.notes, known.rehearsed, known.looks)


def _resume(
    runner: SideRunner, trial: resume.ResumePlan, known: pair_store.StoredVerification, ends_at: float
) -> Resume:
    """One save and one resume; that of before, where the verification goes on and it was tried."""
    if known.resume is not None and known.resume.result is not Resumed.NOT_TRIED:
        return known.resume
    if trial.why_not:
        return Resume(Resumed.NOT_TRIED, trial.why_not)
    return resume.test_resume(runner, trial.seconds, ends_at)


def _run(runner: SideRunner, side: str, request: collect.Request) -> tuple[collect.Collected, RunResult, Derived]:
    """One run that went well. Raises ScriptError for one that failed, InternalError for a bug of ours."""
    return _checked(runner, side, runner.run(side, request))


def _checked(runner: SideRunner, side: str, ran: Ran) -> tuple[collect.Collected, RunResult, Derived]:
    try:
        return _gone_well(runner, side, *ran)
    except (AutotuneError, InternalError):
        print_stderr(runner.with_real_paths(ran[0].said))
        raise


def _gone_well(
    runner: SideRunner, side: str, collected: collect.Collected, start: RunResult | None, derived: Derived | None
) -> tuple[collect.Collected, RunResult, Derived]:
    words = runner.sides.words[side]
    if collected.ended_by == "startup_limit":
        raise _too_slow("reached no optimizer step in", collected.wall_s)
    run = outcome.summarise(collected, words, runner.python, "", False, runner.cwd)
    if run.error and not collected.bugs:
        raise _failed(side, runner.with_real_paths(run.error), words, collected)
    if start is None and collected.ended_by in ("probe", "time_limit") and not collected.bugs:
        raise _too_slow("measured no step in", collected.wall_s)
    outcome.check(run, collected)
    if start is None or derived is None or run.outcome not in ("completed", "ended_early"):
        raise _failed(side, run.outcome, words, collected)
    return collected, start, derived


def _too_slow(what: str, seconds: float) -> UsageError:
    return UsageError(
        f"it {what} {seconds:.0f} s, and a verification needs at least {FEWEST_RUNS} runs",
        where="--budget",
        to_do=f"Give it a budget for {FEWEST_RUNS} runs, each of them longer than that.",
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
