"""autotune diagnose: arguments in, report and exit code out."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from autotune.attach.attach import ALL_TIERS, SECONDS, AttachOptions, attach
from autotune.cli import options
from autotune.cli.outlook_options import load_asked, outlook, outlook_request
from autotune.cli.output import columns, has_colour, show, verdict_last
from autotune.cli.script_command import explain_misplaced_options
from autotune.collect import Request, Status, job_parts
from autotune.collect.request import DEFAULT_STEPS, LEAST_WINDOW_S
from autotune.diagnose import multi_node
from autotune.diagnose.diagnose import DiagnoseOptions, diagnose
from autotune.diagnose.from_trace import ENDINGS, diagnose_traces
from autotune.diagnose.outlook import OutlookRequest
from autotune.errors import ScriptError, UsageError
from autotune.model.report import Report
from autotune.outlet import print_stderr
from autotune.report import render
from autotune.report.live import ProgressDisplay
from autotune.report.waiting import waiting

FAILED = ("raised", "out_of_memory", "killed_for_memory", "timed_out")
"""Outcomes that are diagnosed and are failures of the script all the same."""

AT_LEAST_ONE = click.IntRange(min=1)
STEPS = f"Steps to measure (default: {DEFAULT_STEPS}, and at least {LEAST_WINDOW_S:g} s)."
WARMUP = "Warm-up steps before the window (default: automatic)."
TIME_LIMIT = "Limit in seconds, from the first step."
JOB = (
    "Folder, on all nodes the same, for one report on a job that an autotune on each node measures (default: "
    ".autotune/jobs/ID of the project, by the scheduler's job or torchrun's --rdzv-id)."
)
LOAD = "Report on a stored diagnosis (last: the newest) instead of a run, as `autotune report` does."
PATH = click.Path(exists=True, path_type=Path)
TRACE = "Report on traces of torch.profiler instead of a run; a COMMAND behind them only tells whose files they are of."
PID = "Look at a process that already runs, without a restart; it excludes a COMMAND (docs/attach.md)."
LOOK = f"With --pid: how long to look at it (default: {SECONDS:g})."
TIER = (
    "With --pid: the highest tier to use (default: 3). 1: counters of the system; 2: stacks, by py-spy; 3: a window of "
    "the probe in the process (Python 3.14 and later)."
)
OF_A_RUN = ("load", "job", "steps", "warmup", "after", "keep_going", "no_what_ifs")
"""Options that mean nothing to traces."""


@click.command(context_settings=options.BEFORE_A_COMMAND)
@click.option("--steps", type=AT_LEAST_ONE, help=STEPS)
@click.option("--warmup", type=AT_LEAST_ONE, help=WARMUP)
@click.option("--after", type=click.IntRange(min=0), default=0, help="Skip this many steps before the warm-up.")
@click.option("--time-limit", type=float, default=180.0, show_default=True, help=TIME_LIMIT)
@options.startup_limit
@click.option("--keep-going", is_flag=True, help="Report when the window is over, and let training go on untouched.")
@click.option("--job", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER", help=JOB)
@click.option("--no-what-ifs", is_flag=True, help="Stop after the window, without what-if probes.")
@options.price
@outlook
@options.python()
@options.format_of("diagnose")
@options.output
@options.verbose
@options.load(LOAD)
@click.option("--trace", "traces", multiple=True, type=PATH, metavar="FILE_OR_FOLDER...", help=TRACE)
@click.option("--pid", type=AT_LEAST_ONE, help=PID)
@click.option("--tier", type=click.IntRange(1, ALL_TIERS), help=TIER)
@click.option("--seconds", type=click.FloatRange(min=1.0), help=LOOK)
@options.no_lock
@options.quiet
@options.script_command
def command(command: tuple[str, ...], **given: Any) -> None:
    """Profile a few steps of an untouched training script and say where the time goes.

    COMMAND is a script with its arguments, or, after --, any command that starts one:

    \b
        autotune diagnose train.py --lr 1e-4
        autotune diagnose -- torchrun --nproc-per-node 2 train.py
        autotune diagnose --trace trace.json.gz
        autotune diagnose --pid 4711
    """
    if given["pid"] is not None:
        _look_at(command, given)
        return
    alone = [f"--{name}" for name in ("seconds", "tier") if given[name] is not None]
    if alone:
        raise UsageError("it is about the process of --pid, and there is none", where=", ".join(alone))
    asked = outlook_request(given)
    if given["traces"]:
        with waiting("reading the trace", quiet=given["quiet"]):
            traced = _read_traces(command, asked, given)
        _print(traced, given)
    elif given["load"] is not None:
        with waiting(f"reading {given['load']}", quiet=given["quiet"]):
            loaded = load_asked(given["load"], given)
        _print(loaded, given)
    elif _measure(command, asked, given).run.outcome in FAILED:
        raise SystemExit(ScriptError.exit_code)


MOST_SECONDS = 3600.0
"""Four looks a second are kept until the end."""

WITH_PID = ("pid", "seconds", "tier", "at", "format_", "output", "quiet", "verbose", "no_lock")
"""Options that mean something to a process that runs already; it is not measured alone, so that no lock is taken."""


def _look_at(command: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Say what bounds a process that runs. Raises UsageError for a COMMAND or options of a measurement beside it."""
    if command:
        raise UsageError(
            f"it looks at process {given['pid']}, and {command[0]} would start another",
            where="--pid",
            to_do="Leave one of them out.",
        )
    context = click.get_current_context()
    names = {one.name or "": one.opts[0] for one in context.command.params if isinstance(one, click.Option)}
    is_typed = ParameterSource.COMMANDLINE
    unused = [
        option
        for name, option in names.items()
        if name not in WITH_PID and context.get_parameter_source(name) is is_typed
    ]
    if unused:
        raise UsageError(f"{', '.join(unused)} is about a run that autotune starts or has stored", where="--pid")
    if given["seconds"] is not None and not given["seconds"] <= MOST_SECONDS:  # nan, too, is not
        raise UsageError(f"it looks for at most {MOST_SECONDS:,.0f} seconds", where="--seconds")
    wanted = AttachOptions(given["pid"], given["seconds"] or SECONDS, given["at"], given["tier"] or ALL_TIERS)
    output = given["output"]

    def say() -> None:
        if not given["quiet"]:
            print_stderr(f"autotune: looking at process {wanted.pid} for {wanted.seconds:g} s; it goes on meanwhile")

    found = attach(wanted, say)
    text = render("diagnose --pid", found, given["format_"], colour=has_colour(output), width=columns(output))
    show(text, output)


def _print(report: Report, given: Mapping[str, Any]) -> None:
    output = given["output"]
    text = render(
        "diagnose",
        report,
        given["format_"],
        colour=has_colour(output),
        width=columns(output),
        verbose=given["verbose"],
    )
    show(verdict_last(text, output) if given["format_"] == "text" else text, output)


def _read_traces(command: tuple[str, ...], asked: OutlookRequest, given: Mapping[str, Any]) -> Report:
    """Words that name traces are further traces: `--trace rank*.json` of a shell gives all but the first as words."""
    more = list(takewhile(lambda word: word.endswith(ENDINGS) and Path(word).is_file(), command))
    paths = [*given["traces"], *map(Path, more)]
    words = command[len(more) :]
    unused = [f"--{name.replace('_', '-')}" for name in OF_A_RUN if given[name]]
    if unused:
        raise UsageError(f"{', '.join(unused)} is about a run, and --trace starts none", where="--trace")
    return diagnose_traces(
        paths,
        words,
        cwd=Path.cwd(),
        environ=os.environ,
        price=given["price"],
        asked=asked,
        explicit_python=given["python"],
    )


def _measure(command: tuple[str, ...], asked: OutlookRequest, given: Mapping[str, Any]) -> Report:
    """Measure, and print the report: with --keep-going that is while training goes on."""
    request = Request(
        steps=given["steps"],
        warmup=given["warmup"],
        after=given["after"],
        time_limit_s=given["time_limit"],
        startup_limit_s=given["startup_limit"],
        keep_going=given["keep_going"],
        what_ifs=not given["no_what_ifs"],
    )
    # Where the report goes to stdout for a program, the script's own output goes elsewhere.
    stdout = sys.stderr.fileno() if given["format_"] != "text" and given["output"] is None else None
    wanted = DiagnoseOptions(
        command,
        request,
        python=given["python"],
        price=given["price"],
        lock=not given["no_lock"],
        stdout=stdout,
        asked=asked,
        job=given["job"],
    )
    # srun and mpirun put what all autotunes of a job write into one log: one of them says how far it is.
    is_announced = quiet = given["quiet"] or not job_parts.is_first_task(os.environ)
    with ProgressDisplay(quiet=quiet, is_shared=True) as live:

        def show_status(status: Status) -> None:
            nonlocal is_announced
            if not is_announced:
                print_stderr(_announcement(request))
                is_announced = True
            live.update(status)

        def publish(report: Report) -> None:
            live.close()
            if report.run.is_part:
                print_stderr(f"autotune: {multi_node.part_text(report)}")
            else:
                _print(report, given)

        with explain_misplaced_options(command, quiet=given["quiet"]):
            return diagnose(wanted, show_status, cwd=Path.cwd(), publish=publish)


def _announcement(request: Request) -> str:
    """What will happen to the job, before it starts."""
    steps = f"{request.steps} steps" if request.steps else f"about {DEFAULT_STEPS} steps"
    if request.keep_going:
        return f"autotune: the probe detaches after {steps} and reports; training goes on."
    replays = " and a few replays of them" if request.what_ifs else ""
    return f"autotune: the job will be stopped after {steps}{replays}."
