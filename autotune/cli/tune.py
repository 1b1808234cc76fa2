"""autotune tune: from a command and a budget to the settings that win and their patch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click
from msgspec import Struct, field

from autotune.cli.command_source import resolve_command
from autotune.cli.duration import seconds
from autotune.cli.misplaced_options import watched
from autotune.cli.output import has_colour, show
from autotune.collect import Status
from autotune.diagnose.command_history import StoredCommand
from autotune.model.evidence import Value
from autotune.model.rule import Effect
from autotune.model.tuned import Outcome, SearchTrial, Space
from autotune.model.verified import Schedule
from autotune.outlet import print_stderr
from autotune.report.json import tune
from autotune.report.live import ProgressDisplay
from autotune.report.text import tune as tune_text
from autotune.report.text import verify
from autotune.report.units import duration, step_time
from autotune.tune import tune as api

RENDERERS = {"text": tune_text.render, "json": tune.render}
BUDGET = "Total time: diagnosis, trials, confirmation (default: 10m, without --trials)."
BUDGET_S = 600.0
STUDY = "Storage of the trials: journal:PATH or a database URL. Several tuners can share it."
TRIALS = "Maximum number of trials, instead of --budget or in addition to it."

MOST_LINES = 15
"""Of the stderr of a failed run: the end of a traceback."""


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--budget", callback=seconds, help=BUDGET)
@click.option("--trials", type=click.IntRange(min=1), help=TRIALS)
@click.option("--knobs", multiple=True, metavar="KNOB,...", help="Search only these knobs: batch, workers, threads ...")
@click.option("--study", metavar="STORAGE", help=STUDY)
@click.option("--resume", is_flag=True, help="Continue the newest interrupted search of this command.")
@click.option(
    "--allow", type=click.Choice([Effect.ALTERING.value]), multiple=True, help="Also use changes with this effect."
)
@click.option("--price", type=float, help="USD per hour of this machine: adds cost to times.")
@click.option("--python", help="Python interpreter of the script.")
@click.option("--format", "format_", type=click.Choice(list(RENDERERS)), default="text", help="Output format.")
@click.option("--no-lock", is_flag=True, help="Measure even while another measurement runs.")
@click.option("--quiet", is_flag=True, help="Show no progress on stderr.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def command(command: tuple[str, ...], **given: Any) -> None:
    """Search settings that measurably make a script faster, and write a patch for them.

    Every trial is a fresh process in a scratch copy: your files stay unchanged until `autotune apply`. The winner is
    measured again in an A/B confirmation against the baseline; if nothing wins, keep what you have. COMMAND is a script
    with its arguments, or, after --, any command that starts one; without it, the command of the last diagnosis.
    """
    known = resolve_command(command, "tune", given["python"])
    with ProgressDisplay(quiet=given["quiet"]) as live:
        progress = _Progress(live, given["quiet"], given["price"])
        try:
            with watched(known.words, quiet=given["quiet"]):
                tuned = api.tune(_options(known, given), progress, cwd=known.cwd)
        except (KeyboardInterrupt, SystemExit):
            live.close()
            print_stderr(f"autotune: {progress.interrupted()}")
            raise
    show(RENDERERS[given["format_"]](tuned, has_colour(None), 100, given["price"]), None)


def _options(command: StoredCommand, given: Mapping[str, Any]) -> api.Options:
    has_end = given["budget"] is not None or given["trials"] is not None
    return api.Options(
        command.words,
        budget_s=given["budget"] if has_end else BUDGET_S,
        num_trials=given["trials"],
        knobs=frozenset(part.strip() for each in given["knobs"] for part in each.split(",") if part.strip()),
        study=given["study"],
        resume=given["resume"],
        allow=frozenset(map(Effect, given["allow"])),
        python=command.python,
        lock=not given["no_lock"],
    )


class _Progress(Struct):
    """Shows the progress on stderr: a line for each trial that ended, and a status line."""

    live: ProgressDisplay
    quiet: bool
    price: float | None
    space: Space = field(default_factory=lambda: Space(()))
    own: float | None = None
    best: SearchTrial | None = None
    now: str = "diagnosis"
    ends_at: float | None = None

    def status(self, status: Status) -> None:
        self.live.update(status, head=f"{self.now}{self._left()}")

    def planned(self, space: Space, trial_s: float, left_s: float | None) -> None:
        self.space, self.ends_at = space, None if left_s is None else time.monotonic() + left_s
        self._say(tune_text.plan(space, trial_s, left_s, self.price))

    def known(self, trials: tuple[SearchTrial, ...]) -> None:
        for trial in trials:
            self._note(trial)
        if trials:
            noun = "trial" if len(trials) == 1 else "trials"
            self._say(f"the study has {len(trials)} {noun} already{self._best()}")

    def began(self, number: int, changes: Mapping[str, Value]) -> None:
        self.now = f"trial {number}: {tune_text.changed(changes)}"

    def said(self, text: str) -> None:
        lines = text.splitlines()[-MOST_LINES:]
        if lines and not self.quiet:
            self.live.close()
            print_stderr("\n".join(lines))

    def ended(self, trial: SearchTrial) -> None:
        self._note(trial)
        self._say(f"{self.now}: {self._came_to(trial)}")

    def confirming(self, planned: Schedule) -> None:
        self.now = "A/B confirmation"
        runs = verify.plan(planned.seconds, len(planned.order), 0.0, None)
        self._say(f"A/B confirmation of the best candidate: {runs}")

    def interrupted(self) -> str:
        """What an interrupted search has found."""
        if self.best is None:
            return "no trial had finished"
        changes = self.space.changes(self.best.candidate)
        found = tune_text.changed(changes) if changes else "the baseline"
        found = f"the best so far was {found}{self._factor(self.best)}, not confirmed"
        return f"{found}; the trials are stored: continue with the same command and --resume"

    def _note(self, trial: SearchTrial) -> None:
        if trial.samples_per_s and trial.outcome is Outcome.COMPLETED:
            self.own = self.own or (trial.samples_per_s if self._is_own(trial) else None)
            best = self.best.samples_per_s if self.best is not None else None
            self.best = trial if best is None or trial.samples_per_s > best else self.best

    def _best(self) -> str:
        factor = self._factor(self.best) if self.best is not None else ""
        return f"; best {factor.lstrip(', ')}" if factor else ""

    def _came_to(self, trial: SearchTrial) -> str:
        if trial.step_ms is None or trial.outcome is not Outcome.COMPLETED:
            return f"{tune_text.OUTCOMES[trial.outcome]}: {trial.error}"
        return f"{step_time(trial.step_ms)} per step{self._factor(trial)}"

    def _factor(self, trial: SearchTrial) -> str:
        if self._is_own(trial) or not trial.samples_per_s or not self.own:
            return ""
        return f", {trial.samples_per_s / self.own:.2f}x"

    def _is_own(self, trial: SearchTrial) -> bool:
        return trial.candidate == self.space.current

    def _left(self) -> str:
        left_s = None if self.ends_at is None else max(0.0, self.ends_at - time.monotonic())
        return f"{self._best()}{f'; {duration(left_s)} left' if left_s is not None else ''}"

    def _say(self, text: str) -> None:
        if not self.quiet:
            self.live.close()
            print_stderr(f"autotune: {text}")
