"""tune: from a command to the settings that measurably win, and their patch.

1. Diagnose the command: what can be set, what the forecast says, what a trial takes.
2. Search: trials of candidates until another one is not worth its time.
3. Choose the fastest candidate that can be written, and drop the changes that bring nothing.
4. Confirm it against the baseline by the A/B protocol of `verify`, and write its patch where it wins.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import machine, predict
from autotune.collect import artefacts, lock, stale_runs
from autotune.collect.allocation import Allocation, check_launch
from autotune.diagnose import diagnose
from autotune.errors import ScriptError, UsageError
from autotune.history import commands, predictions, results
from autotune.invocation import invoked
from autotune.machine.signals import terminate_on_signal
from autotune.model.evidence import Value
from autotune.model.forecast import Forecast
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.model.tuned import Candidate, Outcome, SearchTrial, SkippedSetting, Tuned
from autotune.report import machine as machine_line
from autotune.tune import budget, confirmation, runs, search_result
from autotune.tune.observer import TuneObserver
from autotune.tune.runs import SearchRun
from autotune.tune.search import search
from autotune.tune.stopping import Stopping
from autotune.tune.study import Study, place
from autotune.tune.surrogate import Forecaster
from autotune.tune.trial import MACHINE_NAMES, Trials
from autotune.tune.trial_space import trial_space
from autotune.tune.winner import Winner, choose, suspect, taken_back
from autotune.verify.scratch import run_folder
from autotune.verify.summary import side_effects

QUEUE_S = 86_400.0
"""So long a launched trial may wait for its machine before others take it for dead."""


class TuneOptions(Struct, frozen=True):
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
    price: float | None = None
    """USD per hour of this machine."""

    launch: str | None = None
    """A command with {script} that starts each trial as a job of a scheduler; None: trials run on this machine."""


def tune(options: TuneOptions, observer: TuneObserver, *, cwd: Path, environ: Mapping[str, str] = os.environ) -> Tuned:
    """Search the settings of the command and confirm the best. Files are changed and run in a scratch copy only.

    Raises UsageError when the budget is too small or the study is of something else, ScriptError when the script does
    not run as it is.
    """
    if not options.words:
        raise UsageError("no script was given", to_do="Type: autotune tune train.py [ARGS...]")
    called = invoked(options.words, cwd, environ)
    began, root = time.monotonic(), artefacts.command_root(cwd, called.file)
    stale_runs.remove_leftovers(root)
    if options.budget_s is not None and not options.resume:
        budget.refuse_by_last_diagnosis(options.budget_s, root, options.words, cwd)
    if options.launch is not None:
        check_launch(options.launch)
    is_measured_here = options.lock and options.launch is None
    with terminate_on_signal(), lock.one_measurement(called.title) if is_measured_here else nullcontext():
        run, report = _diagnose_or_resume(options, observer, root, cwd, environ)
        probes_s = time.monotonic() - began
        with trial_space(
            report,
            options.words,
            options.knobs,
            options.allow,
            observer.run_status,
            cwd=cwd,
            environ=environ,
            launch=options.launch,
            study=place(options.study or ""),
        ) as trials:
            ends_at = None if options.budget_s is None else began + options.budget_s
            tuned = _search_and_confirm(options, run, report, trials, observer, ends_at)
    artefacts.mark_last(run.folder, cwd)
    command = commands.StoredCommand(run.folder.name, options.words, cwd, options.python)
    commands.store(run.folder, command, report.run.command)
    runs.save(run, ended=not tuned.notes)
    tuned = replace(
        tuned,
        spent_s=time.monotonic() - began,
        probes_s=probes_s,
        beyond=tuple(search_result.beyond(report, tuned.space)),
        diagnosed=run.diagnosed,
        command=tuple(report.run.command),
        environment=machine_line.line(report),
        day=time.strftime("%Y-%m-%d", time.gmtime()),
        price_per_hour=options.price,
    )
    results.save_search(run.folder, tuned)
    return tuned


def _diagnose_or_resume(
    options: TuneOptions, observer: TuneObserver, root: Path, cwd: Path, environ: Mapping[str, str]
) -> tuple[SearchRun, Report]:
    """The run folder of the search and its diagnosis: made now, or by the search that is resumed."""
    asked = (*options.knobs, *options.allow, options.python or "", runs.contents(options.words, cwd, root))
    if options.resume:
        run = runs.resumed(root, options.words, asked, options.study, options.launch)
        return run, diagnose.load(str(run.folder.with_name(run.diagnosed)), cwd=cwd)
    wanted = diagnose.DiagnoseOptions(options.words, python=options.python, lock=False, stdout=sys.stderr.fileno())
    report = _diagnosed(wanted, options, observer, root, cwd, environ)
    if report.step is None:
        raise ScriptError(
            f"it does not run as it is: {report.run.error or report.run.outcome}",
            where=options.words[0],
            to_do="`autotune report last` says more. Make it run, then tune it.",
        )
    run = runs.new(root, options.words, asked, options.study, options.launch)
    run = replace(run, diagnosed=Path(report.run.folder).name)
    runs.save(run, ended=False)
    return run, report


def _diagnosed(
    wanted: diagnose.DiagnoseOptions,
    options: TuneOptions,
    observer: TuneObserver,
    root: Path,
    cwd: Path,
    environ: Mapping[str, str],
) -> Report:
    """The diagnosis, made where the trials will be made."""
    if options.launch is None:
        return diagnose.diagnose(wanted, observer.run_status, cwd=cwd, environ=environ)
    with (
        run_folder(root) as folder,
        Allocation(options.launch, folder, options.words, cwd, environ) as there,
    ):
        return diagnose.diagnose(wanted, observer.run_status, cwd=cwd, environ=environ, there=there)


def _search_and_confirm(
    options: TuneOptions,
    run: SearchRun,
    report: Report,
    trials: Trials,
    observer: TuneObserver,
    ends_at: float | None,
) -> Tuned:
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
        machine=_machine_kind(report, trials),
        longest_s=_longest_s(trials, options) if run.is_shared else None,
        on_result=observer.trial_ended,
    )
    stages = Search(run, report, trials, forecast, study, observer, ends_at, options.num_trials)
    observer.search_started(space, trials.baseline.trial_s, stages.left_s)
    stopping = Stopping(_search_s(stages, options.budget_s), stages.num_trials, report.planned_s)
    observer.trials_loaded(study.trials())
    tried, stopped = search(space, study, stages.attempt, stopping)
    _check_baseline(tried, space.current, options.words)
    tuned = _choose_and_confirm(stages, stopped)
    return replace(tuned, side_effects=side_effects((each.escaped, each.why) for each in trials.effects))


def _longest_s(trials: Trials, options: TuneOptions) -> float:
    """So long a trial of another tuner may take, its time in a queue included."""
    return trials.baseline.longest_s + (QUEUE_S if options.launch is not None else 0.0)


def _machine_kind(report: Report, trials: Trials) -> str:
    """Speeds of different kinds of machines cannot be compared. This machine's, which may not be the one of the report
    that a search resumes; the report's where each trial is launched, and compares its machine with it."""
    known: Mapping[str, object] = {f"machine.{name}": value for name, value in report.machine.items()}
    if trials.workspace.launch is None:
        known = {one.name: one.value for one in machine.facts({}, environ=trials.workspace.environ)}
    return ", ".join(str(known[name]) for name in MACHINE_NAMES if known.get(name))


class Search(Struct, frozen=True):
    """What the stages of one search share."""

    run: SearchRun
    report: Report
    trials: Trials
    forecast: Forecaster
    study: Study
    observer: TuneObserver

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
        return budget.confirmation_s(self.trials.baseline.trial_s)

    def holds_confirmation(self, more_s: float = 0.0) -> bool:
        """Whether the time that is left holds a confirmation, and `more_s` seconds."""
        return self.left_s is None or self.left_s >= self.confirmation_s + more_s

    def attempt(self, number: int, candidate: Candidate, forecast: float | None) -> SearchTrial:
        """Run one trial."""
        self.observer.trial_started(number, self.trials.space.changes(candidate))
        trial = self.trials.attempt(number, candidate, forecast)
        if trial.outcome in (Outcome.FAILED, Outcome.TIMED_OUT):  # the end of its stderr may say why
            self.observer.run_failed(self.trials.said)
        return trial

    def additional(self, candidate: Candidate) -> SearchTrial | None:
        """Run a trial that is needed to choose the winner. None where time or trials are used up, or another
        tuner runs it."""
        has_trials = self.num_trials is None or len(self.study.trials()) < self.num_trials
        if not has_trials or not self.holds_confirmation(self.trials.baseline.trial_s):
            return None
        with self.study.attempt(candidate) as begun:
            if begun is None:
                return None
            trial = self.attempt(begun.number, begun.candidate, None)
            self.study.tell(begun, trial)
        return trial if begun.candidate == candidate else None


def _search_s(stages: Search, budget_s: float | None) -> float | None:
    """What the search may take besides the confirmation. Raises UsageError when that is too little."""
    left_s = stages.left_s
    if left_s is None or budget_s is None:
        return None
    budget.refuse(budget_s, budget_s - left_s, stages.trials.baseline.trial_s, "by its diagnosis")
    return left_s - stages.confirmation_s


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


def _choose_and_confirm(stages: Search, stopped: str) -> Tuned:
    """Confirm the best of the study's trials; `stopped` says why the search ended.

    Where the losses differ, the axis that is most likely to cause it is taken back and the rest is confirmed, while the
    time holds that.
    """
    space = stages.trials.space
    tuned = unconfirmed = Tuned(space, (), {}, None, stopped, 0.0, 0.0)
    other_losses: dict[str, tuple[SkippedSetting, ...]] = {}
    also: tuple[Candidate, ...] = ()
    while (winner := _choose(stages, other_losses, also)).writable.candidate != space.current:
        chosen = winner.writable.candidate
        why = confirmation.scaled_losses(stages.trials, chosen)
        if not why:
            tuned = _confirm(stages, winner, unconfirmed)
            if tuned.verified is None or not confirmation.has_other_losses(tuned.verified):
                break
            why = tuned.verified.losses.why
        axis = suspect(space, chosen)
        other_losses[axis.name] = tuple(search_result.losses_differ(space, chosen, axis, why))
        also = tuple(taken_back(space, one.candidate, other_losses) for one in (winner.fastest, winner.writable))
        if tuned.verified is not None and not stages.holds_confirmation():
            break
    lost = [one for each in other_losses.values() for one in each]
    dropped = [one for one in (*search_result.dropped(winner), *lost) if one.setting not in tuned.best]
    names = tuple(one.setting for one in lost)
    return replace(tuned, trials=stages.study.trials(), dropped=tuple(dropped), other_losses=names)


def _choose(stages: Search, fixed: Mapping[str, object], also: tuple[Candidate, ...]) -> Winner:
    trials = stages.trials
    manual = partial(confirmation.manual_changes, trials)
    return choose(trials.space, stages.forecast, stages.study.trials(), stages.additional, manual, tuple(fixed), also)


def _confirm(stages: Search, winner: Winner, unconfirmed: Tuned) -> Tuned:
    """`unconfirmed` with the verdict of the confirmation, and the patch where the chosen candidate won."""
    trials, chosen, run = stages.trials, winner.writable.candidate, stages.run
    try:
        limit_s = _confirmation_limit_s(stages, chosen)
        verified = confirmation.confirm(trials, chosen, limit_s, stages.observer.confirmation_started)
    except (UsageError, ScriptError) as error:
        stages.observer.run_failed(trials.said)
        note = search_result.unconfirmed(trials.space, stages.study.trials(), chosen, error)
        return replace(unconfirmed, notes=(note,))
    together = confirmation.written_together(verified.changes)
    changes = tuple(search_result.with_gain(change, winner.writable) for change in together)
    expected = search_result.predicted(stages.forecast(trials.space.settings(chosen)), stages.report.step)
    verified = replace(verified, changes=changes, predicted=expected)
    tuned = replace(unconfirmed, by_hand=tuple(search_result.manual(trials, winner)))
    if confirmation.has_won(verified):
        file = search_result.write_patch(changes, trials.workspace.root, run.folder, stages.report.run.command)
        tuned = replace(tuned, best=trials.space.changes(chosen), patch=file)
    return replace(tuned, verified=predictions.record(trials.workspace.root, run.folder.name, verified))


def _confirmation_limit_s(stages: Search, chosen: Candidate) -> float:
    """What the confirmation may take: where losses may differ, time for a second one is reserved if there is any."""
    left_s, space = stages.left_s or 0.0, stages.trials.space
    is_in_doubt = space.touches_learning(space.changes(chosen)) and left_s > 2 * stages.confirmation_s
    return left_s - stages.confirmation_s if is_in_doubt else left_s
