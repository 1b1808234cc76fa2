"""tune: from a command to the settings that measurably win, and their patch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotune.api import diagnose, remembered, searches
from autotune.api.placed import placed
from autotune.api.search import Search
from autotune.api.searches import Kept
from autotune.api.watch import Watch
from autotune.api.winner import winner
from autotune.collect import artefacts, leftovers, lock
from autotune.errors import ScriptError, UsageError
from autotune.invocation import invoked
from autotune.machine.signals import cleaned_up
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.model.tuned import Beyond, Outcome, Space, Trial, Tuned
from autotune.report import gains
from autotune.tune.search import search
from autotune.tune.stopping import Stopping
from autotune.tune.study import Asked, Study
from autotune.verify.estimate import LEAST_PAIRS
from autotune.verify.summary import side_effects

LEAST_TRIALS = 3
"""A budget that holds fewer beside the proof finds nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for. All of it ends after `budget_s` seconds; `num_trials` are made before the proof at most.

    `knobs` are axes or settings, empty for all; `study` is a storage URL that several tuners may share, None for a
    file in the run folder; `resume` goes on with the newest search of the same command that did not end.
    """

    words: tuple[str, ...]
    budget_s: float | None = 600.0
    num_trials: int | None = None
    knobs: frozenset[str] = frozenset()
    study: str | None = None
    resume: bool = False
    allow: frozenset[Effect] = field(default_factory=frozenset)
    python: str | None = None
    lock: bool = True


def tune(options: Options, watch: Watch, *, cwd: Path, environ: Mapping[str, str] = os.environ) -> Tuned:
    """Search the settings of the command, and prove the best. Files are read and run in a scratch copy only.

    Raises UsageError when the budget is too small or the study is of something else, ScriptError when the script does
    not run as it is.
    """
    if not options.words:
        raise UsageError("no script was given", to_do="Type: autotune tune train.py [ARGS...]")
    called = invoked(options.words, cwd, environ)
    began, root = time.monotonic(), artefacts.command_root(cwd, called.file)
    leftovers.remove_leftovers(root)
    with cleaned_up(), lock.one_measurement(called.title) if options.lock else nullcontext():
        kept, report = _diagnosed(options, watch, root, cwd, environ)
        probes_s = time.monotonic() - began
        with placed(
            report, options.words, options.knobs, options.allow, watch.status, cwd=cwd, environ=environ
        ) as trials:
            if trials.space.axes:
                ends_at = None if options.budget_s is None else began + options.budget_s
                study = _Told(trials.space, kept, watch)
                tuned = _searched(Search(kept, report, trials, study, watch, ends_at, options.num_trials), options)
            else:
                tuned = _nothing(trials.space)
    artefacts.mark_last(kept.folder, cwd)
    command = remembered.Remembered(kept.folder.name, options.words, cwd, options.python)
    remembered.keep(kept.folder, command, report.run.command)
    searches.keep(kept, ended=not tuned.notes)
    beyond = tuple(_beyond(report, tuned.space))
    spent_s = time.monotonic() - began
    return replace(tuned, spent_s=spent_s, probes_s=probes_s, beyond=beyond, diagnosed=kept.diagnosed)


def _beyond(report: Report, space: Space) -> Iterator[Beyond]:
    """What is expected to bring something, and not by a setting that is searched."""
    for one in report.recommendations:
        changed = [(found.subject, change.setting) for found in one.findings for change in found.changes]
        if one.gain is not None and not any(space.is_searched(*change) for change in changed):
            gain = replace(one.gain, basis=gains.basis(one.gain, report.step))
            yield Beyond(tuple(found.rule.id for found in one.findings), one.first.message, gain)


def _diagnosed(
    options: Options, watch: Watch, root: Path, cwd: Path, environ: Mapping[str, str]
) -> tuple[Kept, Report]:
    """The run folder of the search, and what its diagnosis says: made now, or by the search that is resumed."""
    contents = searches.contents(options.words, cwd, root)
    asked = (*options.knobs, *options.allow, options.python or "", contents)
    if options.resume:
        kept = searches.resumed(root, options.words, asked, options.study)
        return kept, diagnose.load(str(kept.folder.with_name(kept.diagnosed)), cwd=cwd)
    wanted = diagnose.Options(options.words, python=options.python, lock=False, stdout=sys.stderr.fileno())
    report = diagnose.diagnose(wanted, watch.status, cwd=cwd, environ=environ)
    if report.step is None:
        raise ScriptError(
            f"it does not run as it is: {report.run.error or report.run.outcome}",
            where=options.words[0],
            to_do="`autotune diagnose --load last` says more. Make it run, then tune it.",
        )
    kept = searches.new(root, options.words, asked, options.study)
    kept = replace(kept, diagnosed=Path(report.run.folder).name)
    searches.keep(kept, ended=False)
    return kept, report


def _nothing(found: Space) -> Tuned:
    return Tuned(found, (), {}, None, "there is nothing to search in this script", 0.0, 0.0)


def _searched(made: Search, options: Options) -> Tuned:
    """Search, prove the best, and write its patch when it won."""
    found, trial_s = made.trials.space, made.trials.usual.trial_s
    made.watch.planned(found, trial_s, made.left_s)
    stopping = Stopping(_search_s(made), made.num_trials, made.report.planned_s)
    made.watch.known(made.study.trials())
    tried, stopped = search(found, made.forecast, made.attempt, stopping, made.study)
    _check_own(tried, found, options.words)
    tuned = winner(made, stopped)
    effects = side_effects((each.escaped, each.why) for each in made.trials.effects)
    said = f"{tuned.stopped}; {made.study.lost}" if made.study.lost else tuned.stopped
    return replace(tuned, stopped=said, side_effects=effects)


class _Told(Study):
    """A study whose watcher is told of each trial once that is kept: what was said to have ended is never lost."""

    def __init__(self, found: Space, kept: Kept, watch: Watch) -> None:
        super().__init__(found, kept.url, kept.name)
        self._watch, self._said = watch, ""

    def tell(self, asked: Asked, trial: Trial) -> None:
        super().tell(asked, trial)
        self._watch.ended(trial)
        if self.lost != self._said:
            self._watch.said(self.lost)
            self._said = self.lost


def _search_s(made: Search) -> float | None:
    """What the search may take so that the proof has its time. Raises UsageError when that is too little."""
    left_s, trial_s = made.left_s, made.trials.usual.trial_s
    if left_s is None:
        return None
    missing_s = made.proof_s + LEAST_TRIALS * trial_s - left_s
    if missing_s > 0:
        raise UsageError(
            f"it is too small: a run takes about {trial_s:.0f} s, and the A/B confirmation needs {2 * LEAST_PAIRS}",
            where="--budget",
            to_do=f"Add at least {missing_s:.0f} s.",
        )
    return left_s - made.proof_s


def _check_own(tried: tuple[Trial, ...], found: Space, words: tuple[str, ...]) -> None:
    """Raises ScriptError where the user's own settings do not run; not where only memory is short and others do."""
    own = [trial for trial in tried if trial.candidate == found.current]
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
