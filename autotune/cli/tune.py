"""autotune tune: a command and a budget in, the settings that win and their patch out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from autotune.cli import options
from autotune.cli.output import columns, has_colour, show
from autotune.cli.script_command import explain_misplaced_options, resolve_command
from autotune.history.commands import StoredCommand
from autotune.outlet import print_stderr
from autotune.report import render
from autotune.report.live import ProgressDisplay
from autotune.report.tune_progress import TuneProgress
from autotune.tune.tune import TuneOptions, tune

BUDGET = "Total time: diagnosis, trials, confirmation (default: 10m, without --trials)."
BUDGET_S = 600.0
TRIALS = "Maximum number of trials, instead of --budget or in addition to it."
KNOBS = "Search only these knobs: batch, workers, threads ..."
STUDY = "Storage of the trials: journal:PATH, a database URL or grpc://host:port. Several tuners can share it."
LAUNCH = "Run each trial as a job that this command starts and waits for: 'sbatch --wait {script}'."


@click.command(context_settings=options.BEFORE_A_COMMAND)
@options.budget(BUDGET)
@click.option("--trials", type=click.IntRange(min=1), help=TRIALS)
@click.option("--knobs", multiple=True, metavar="KNOB,...", callback=options.names, help=KNOBS)
@click.option("--study", metavar="STORAGE", help=STUDY)
@click.option("--launch", metavar="COMMAND", help=LAUNCH)
@options.resume("Continue the newest interrupted search of this command.")
@options.allow("Also use changes with this effect.")
@options.price
@options.python()
@options.format_of("tune")
@options.output
@options.no_lock
@options.quiet
@options.script_command
def command(command: tuple[str, ...], **given: Any) -> None:
    """Search settings that measurably make a script faster, and write a patch for them.

    Every trial is a fresh process in a scratch copy: your files stay unchanged until `autotune apply`. The winner is
    measured again in an A/B confirmation against the baseline; if nothing wins, keep what you have. COMMAND is a script
    with its arguments, or, after --, any command that starts one; without it, the command of the last diagnosis.
    """
    resolved = resolve_command(command, "tune", given["python"])
    with ProgressDisplay(quiet=given["quiet"]) as live:
        progress = TuneProgress(live, given["quiet"], given["price"])
        try:
            with explain_misplaced_options(resolved.words, quiet=given["quiet"]):
                tuned = tune(_options(resolved, given), progress, cwd=resolved.cwd)
        except (KeyboardInterrupt, SystemExit):
            live.close()
            print_stderr(f"autotune: {progress.interrupted()}")
            raise
    output, width = given["output"], columns(given["output"], default=100)
    show(render("tune", tuned, given["format_"], colour=has_colour(output), width=width), output)


def _options(command: StoredCommand, given: Mapping[str, Any]) -> TuneOptions:
    has_end = given["budget"] is not None or given["trials"] is not None
    return TuneOptions(
        command.words,
        budget_s=given["budget"] if has_end else BUDGET_S,
        num_trials=given["trials"],
        knobs=frozenset(given["knobs"]),
        study=given["study"],
        resume=given["resume"],
        allow=given["allow"],
        python=command.python,
        lock=not given["no_lock"],
        price=given["price"],
        launch=given["launch"],
    )
