"""tune: from a command to the settings that measurably win, and their patch.

1. Diagnose the command: what can be set, what the forecast says, what a trial takes.
2. Search: trials of candidates until another one is not worth its time.
3. Choose the fastest candidate that can be written, and drop the changes that bring nothing.
4. Confirm it against the baseline by the A/B protocol of `verify`, and write its patch where it wins.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import predict
from autotune.collect import artefacts, lock, stale_runs
from autotune.diagnose import command_history, diagnose, prediction_history
from autotune.errors import ScriptError, UsageError
from autotune.invocation import invoked
from autotune.machine import limits
from autotune.machine.signals import terminate_on_signal
from autotune.model.evidence import Value
from autotune.model.forecast import Forecast
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.model.tuned import Candidate, Outcome, SearchTrial, SkippedSetting, Tuned
from autotune.tune import answer, confirmation, runs
from autotune.tune.choice import Choice, choose, suspect, taken_back
from autotune.tune.progress import Watch
from autotune.tune.runs import SearchRun
from autotune.tune.search import search
from autotune.tune.stopping import Stopping
from autotune.tune.study import Study
from autotune.tune.surrogate import Forecaster
from autotune.tune.trial import BaselineRun, Trials
from autotune.tune.trial_space import trial_space
from autotune.verify import budget_check
from autotune.verify.summary import side_effects
from autotune.verify.thresholds import END_S, LEAST_PAIRS, SPARE

LEAST_TRIALS = 3
"""A budget for fewer trials finds nothing."""

HAS_LAST_WORDS = (Outcome.FAILED, Outcome.TIMED_OUT)
"""Outcomes that the end of the script's stderr may explain."""


class Options(Struct, frozen=True):
    """What the user asked for."""

    words: tuple[str, ...]

    budget_s: float | None = 600.0
    """For the diagnosis, the search and the confirmation together."""

    num_trials: int | None = None
    """At most, before the confirmation."""

    knobs: frozenset[str] = frozenset()
    """Axes or settings to search; empty for all."""

    study: str | None = None
    """A storage that several tuners may share; None for a journal in the run folder."""

    resume: bool = False
    """Continue the newest search of the same command that did not end."""

    allow: frozenset[Effect] = field(default_factory=frozenset)
    python: str | None = None
    lock: bool = True


class Search(Struct, frozen=True):
    """What the stages of one search share."""

    run: SearchRun
    report: Report
    trials: Trials
    forecast: Forecaster
    study: Study
    watch: Watch

    ends_at: float | None
    """On the monotonic clock; None without a budget."""

    num_trials: int | None
    """The most that the study may hold."""

    @property
    def left_s(self) -> float | None:
        """What is left of the budget."""
        return None if self.ends_at is None else self.ends_at - time.monotonic()

    @property
    def confirmation_s(self) -> float:
        """What the confirmation takes, about."""
        return _confirmation_of(self.trials.baseline.trial_s)

    def holds_confirmation(self, more_s: float = 0.0) -> bool:
        """Whether the time that is left holds a confirmation, and `more_s` seconds."""
        return self.left_s is None or self.left_s >= self.confirmation_s + more_s

    def attempt(self, number: int, candidate: Candidate, forecast: float | None) -> SearchTrial:
        """Run one trial."""
        self.watch.began(number, self.trials.space.changes(candidate))
        trial = self.trials.attempt(number, candidate, forecast)
        if trial.outcome in HAS_LAST_WORDS:
            self.watch.said(self.trials.said)
        return trial

    def additional(self, candidate: Candidate) -> SearchTrial | None:
        """Run a trial that the choice needs. None where time or trials are used up, or another tuner runs it."""
        has_trials = self.num_trials is None or len(self.study.trials()) < self.num_trials
        if not has_trials or not self.holds_confirmation(self.trials.baseline.trial_s):
            return None
        with self.study.attempt(candidate) as begun:
            if begun is None:
                return None
            trial = self.attempt(begun.number, begun.candidate, None)
            self.study.tell(begun, trial)
        return trial if begun.candidate == candidate else None


def tune(options: Options, watch: Watch, *, cwd: Path, environ: Mapping[str, str] = os.environ) -> Tuned:
    """Search the settings of the command and confirm the best. Files are changed and run in a scratch copy only.

    Raises UsageError when the budget is too small or the study is of something else, ScriptError when the script does
    not run as it is.
    """
    if not options.words:
        raise UsageError("no script was given", to_do="Type: autotune tune train.py [ARGS...]")
    called = invoked(options.words, cwd, environ)
    began, root = time.monotonic(), artefacts.command_root(cwd, called.file)
    stale_runs.remove_leftovers(root)
    _refuse_beforehand(options, root, cwd)
    with terminate_on_signal(), lock.one_measurement(called.title) if options.lock else nullcontext():
        run, report = _diagnosed(options, watch, root, cwd, environ)
        probes_s = time.monotonic() - began
        with trial_space(
            report, options.words, options.knobs, options.allow, watch.status, cwd=cwd, environ=environ
        ) as trials:
            ends_at = None if options.budget_s is None else began + options.budget_s
            tuned = _tuned(options, run, report, trials, watch, ends_at)
    artefacts.mark_last(run.folder, cwd)
    command = command_history.StoredCommand(run.folder.name, options.words, cwd, options.python)
    command_history.store(run.folder, command, report.run.command)
    runs.save(run, ended=not tuned.notes)
    beyond = tuple(answer.beyond(report, tuned.space))
    return replace(tuned, spent_s=time.monotonic() - began, probes_s=probes_s, beyond=beyond, diagnosed=run.diagnosed)


def _diagnosed(
    options: Options, watch: Watch, root: Path, cwd: Path, environ: Mapping[str, str]
) -> tuple[SearchRun, Report]:
    """The run folder of the search and its diagnosis: made now, or by the search that is resumed."""
    asked = (*options.knobs, *options.allow, options.python or "", runs.contents(options.words, cwd, root))
    if options.resume:
        run = runs.resumed(root, options.words, asked, options.study)
        return run, diagnose.load(str(run.folder.with_name(run.diagnosed)), cwd=cwd)
    wanted = diagnose.DiagnoseOptions(options.words, python=options.python, lock=False, stdout=sys.stderr.fileno())
    report = diagnose.diagnose(wanted, watch.status, cwd=cwd, environ=environ)
    if report.step is None:
        raise ScriptError(
            f"it does not run as it is: {report.run.error or report.run.outcome}",
            where=options.words[0],
            to_do="`autotune diagnose --load last` says more. Make it run, then tune it.",
        )
    run = runs.new(root, options.words, asked, options.study)
    run = replace(run, diagnosed=Path(report.run.folder).name)
    runs.save(run, ended=False)
    return run, report


def _tuned(
    options: Options, run: SearchRun, report: Report, trials: Trials, watch: Watch, ends_at: float | None
) -> Tuned:
    """Search, then choose and confirm."""
    space = trials.space
    if not space.axes:
        return Tuned(space, (), {}, None, "there is nothing to search in this script", 0.0, 0.0)

    def forecast(settings: Mapping[str, Value]) -> Forecast | None:
        return predict.step_ms(settings, report.evidence)

    study = Study(
        space,
        forecast,
        run.storage,
        run.name,
        machine=_machine(report),
        longest_s=trials.baseline.longest_s if run.is_shared else None,
        on_result=watch.ended,
    )
    made = Search(run, report, trials, forecast, study, watch, ends_at, options.num_trials)
    watch.planned(space, trials.baseline.trial_s, made.left_s)
    stopping = Stopping(_search_s(made, options), made.num_trials, report.planned_s)
    watch.known(study.trials())
    tried, stopped = search(space, study, made.attempt, stopping)
    _check_baseline(tried, space.current, options.words)
    tuned = _confirmed(made, stopped)
    return replace(tuned, side_effects=side_effects((each.escaped, each.why) for each in trials.effects))


def _confirmed(made: Search, stopped: str) -> Tuned:
    """Confirm the best of the study's trials; `stopped` says why the search ended.

    Where the losses differ, the axis that is most likely to cause it is taken back and the rest is confirmed, while the
    time holds that.
    """
    space = made.trials.space
    tuned = unconfirmed = Tuned(space, (), {}, None, stopped, 0.0, 0.0)
    other_losses: dict[str, tuple[SkippedSetting, ...]] = {}
    also: tuple[Candidate, ...] = ()
    while (choice := _choice(made, other_losses, also)).writable.candidate != space.current:
        chosen = choice.writable.candidate
        why = confirmation.scaled_losses(made.trials, chosen)
        if not why:
            tuned = _confirm(made, choice, unconfirmed)
            if tuned.verified is None or not confirmation.has_other_losses(tuned.verified):
                break
            why = tuned.verified.losses.why
        axis = suspect(space, chosen)
        other_losses[axis.name] = tuple(answer.losses_differ(space, chosen, axis, why))
        also = tuple(taken_back(space, one.candidate, other_losses) for one in (choice.fastest, choice.writable))
        if tuned.verified is not None and not made.holds_confirmation():
            break
    lost = [one for each in other_losses.values() for one in each]
    dropped = [one for one in (*answer.dropped(choice), *lost) if one.setting not in tuned.best]
    names = tuple(one.setting for one in lost)
    return replace(tuned, trials=made.study.trials(), dropped=tuple(dropped), other_losses=names)


def _choice(made: Search, fixed: Mapping[str, object], also: tuple[Candidate, ...]) -> Choice:
    trials, known = made.trials, made.study.trials()
    manual = partial(confirmation.manual_changes, trials)
    return choose(trials.space, made.forecast, known, made.additional, manual, tuple(fixed), also)


def _confirm(made: Search, choice: Choice, unconfirmed: Tuned) -> Tuned:
    """`unconfirmed` with the verdict of the confirmation, and the patch where the chosen candidate won."""
    trials, chosen = made.trials, choice.writable.candidate
    try:
        verified = confirmation.confirm(trials, chosen, _confirmation_s(made, chosen), made.watch.confirming)
    except (UsageError, ScriptError) as error:
        made.watch.said(trials.said)
        note = answer.unconfirmed(trials.space, made.study.trials(), chosen, error)
        return replace(unconfirmed, notes=(note,))
    together = confirmation.written_together(verified.changes)
    changes = tuple(answer.with_gain(change, choice.writable) for change in together)
    expected = answer.predicted(made.forecast(trials.space.settings(chosen)), made.report.step)
    verified = replace(verified, changes=changes, predicted=expected)
    tuned = replace(unconfirmed, by_hand=tuple(answer.manual(trials, choice)))
    if confirmation.has_won(verified):
        file = answer.write_patch(changes, trials.workspace.root, made.run.folder, made.report.run.command)
        tuned = replace(tuned, best=trials.space.changes(chosen), patch=file)
    return replace(tuned, verified=prediction_history.entries(trials.workspace.root, made.run.folder.name, verified))


def _confirmation_s(made: Search, chosen: Candidate) -> float:
    """What the confirmation may take: where losses may differ, time for a second one is reserved if there is any."""
    left_s, space = made.left_s or 0.0, made.trials.space
    is_in_doubt = space.touches_learning(space.changes(chosen)) and left_s > 2 * made.confirmation_s
    return left_s - made.confirmation_s if is_in_doubt else left_s


def _machine(report: Report) -> str:
    """The kind of machine: speeds of different kinds cannot be compared."""
    names = limits.cpu_name(), report.machine.get("gpu_name")
    return ", ".join(str(name) for name in names if name)


def _refuse_beforehand(options: Options, root: Path, cwd: Path) -> None:
    """Raises UsageError where the newest diagnosis of this command shows that the budget is too small: a search begins
    with another one. A search that is resumed has its diagnosis."""
    if options.budget_s is None or options.resume:
        return
    seen = budget_check.newest(root, command_history.runs(options.words, cwd, root))
    if seen is not None:
        step_s = seen.start.step_ms / 1000
        startup_s = max(0.0, seen.start.fixed_s + step_s - END_S)
        trial_s = BaselineRun(step_s, startup_s, None, seen.start.epoch_steps).trial_s
        by = f"by the diagnosis {seen.run}, which took {seen.wall_s:.0f} s"
        _refuse(options.budget_s, seen.wall_s, trial_s, by)


def _search_s(made: Search, options: Options) -> float | None:
    """What the search may take besides the confirmation. Raises UsageError when that is too little."""
    left_s = made.left_s
    if left_s is None or options.budget_s is None:
        return None
    _refuse(options.budget_s, options.budget_s - left_s, made.trials.baseline.trial_s, "by its diagnosis")
    return left_s - made.confirmation_s


def _refuse(budget_s: float, diagnosis_s: float, trial_s: float, seen: str) -> None:
    """Raises UsageError where a budget does not hold the diagnosis, the fewest trials and the confirmation."""
    least_s = diagnosis_s + LEAST_TRIALS * trial_s + _confirmation_of(trial_s)
    if budget_s < least_s:
        raise UsageError(
            f"{budget_s:.0f} s cannot suffice: a run takes about {trial_s:.0f} s, {seen}, and after the diagnosis a "
            f"search needs at least {LEAST_TRIALS + 2 * LEAST_PAIRS} runs",
            where="--budget",
            to_do=f"This suffices: --budget {math.ceil(SPARE * least_s)}s",
        )


def _confirmation_of(trial_s: float) -> float:
    """What a confirmation takes, about, where a trial takes `trial_s`."""
    return confirmation.SLACK * 2 * LEAST_PAIRS * trial_s


def _check_baseline(tried: tuple[SearchTrial, ...], current: Candidate, words: tuple[str, ...]) -> None:
    """Raises ScriptError where the baseline does not run; not where only its memory is short and another candidate
    fits."""
    own = [trial for trial in tried if trial.candidate == current]
    if not own or any(trial.samples_per_s for trial in own):
        return
    is_memory = all(trial.outcome is Outcome.OUT_OF_MEMORY for trial in own)
    if is_memory and any(trial.outcome is Outcome.COMPLETED for trial in tried):
        return
    more = "Free memory, or divide the micro-batch and multiply the accumulation steps by the same factor."
    raise ScriptError(
        f"it ran in the diagnosis, but not in a trial: {own[-1].error}",
        where=words[0],
        to_do=more if is_memory else "Run it again; the trials run in a scratch copy of the project.",
    )
