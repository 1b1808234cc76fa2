"""autotune diagnose: arguments in, report and exit code out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from autotune.cli.misplaced_options import watched
from autotune.cli.output import has_colour, show
from autotune.collect import Request, Status
from autotune.collect.request import DEFAULT_STEPS, LEAST_WINDOW_S
from autotune.diagnose import diagnose as api
from autotune.diagnose.outlook import OutlookRequest
from autotune.errors import ScriptError
from autotune.model.outlook import ProgressLine
from autotune.model.report import Report
from autotune.outlet import print_stderr
from autotune.predict.device_options import DeviceRequest
from autotune.predict.progress_line import progress
from autotune.report import render
from autotune.report.live import ProgressDisplay

FORMATS = ("text", "json")
STEPS = f"Steps to measure (default: {DEFAULT_STEPS}, and at least {LEAST_WINDOW_S:g} s)."
AT = 'Progress of a running job, "step 1200/50000" or its progress bar: advise whether to restart it.'
OPTIONS = "Compare with the same run on this many devices: DDP, ZeRO-2, FSDP."
POSITIVE = click.FloatRange(min=0, min_open=True)
FAILED = ("raised", "out_of_memory", "killed_for_memory", "timed_out")
"""Outcomes that are diagnosed and are failures of the script all the same."""


def _progress(context: click.Context, parameter: click.Parameter, text: str | None) -> ProgressLine | None:
    """The line of --at, read before anything is measured."""
    return None if text is None else progress(text)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--steps", type=click.IntRange(min=1), help=STEPS)
@click.option("--warmup", type=click.IntRange(min=1), help="Warm-up steps before the window (default: automatic).")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Skip this many steps before the warm-up.")
@click.option(
    "--time-limit", type=float, default=180.0, show_default=True, help="Limit in seconds, from the first step."
)
@click.option(
    "--startup-limit", type=float, default=1800.0, show_default=True, help="Limit in seconds until the first step."
)
@click.option("--keep-going", is_flag=True, help="Detach the probe after the window and let training finish.")
@click.option("--no-what-ifs", is_flag=True, help="Stop after the window, without what-if probes.")
@click.option("--price", type=float, help="USD per hour of this machine: adds cost to times.")
@click.option("--at", callback=_progress, metavar="PROGRESS", help=AT)
@click.option("--options", "devices", type=click.IntRange(min=2), metavar="DEVICES", help=OPTIONS)
@click.option("--bandwidth", type=POSITIVE, metavar="GB/S", help="Between devices, for --options (default: assumed).")
@click.option("--device-price", type=float, help="USD per hour of one device, for --options (default: --price).")
@click.option("--python", help="Python interpreter of the script.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", help="Output format.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
@click.option("--load", "load", metavar="RUN_OR_RECORDING", help="Report on a stored run (last: the newest).")
@click.option("--no-lock", is_flag=True, help="Measure even while another measurement runs.")
@click.option("--quiet", is_flag=True, help="Show no progress on stderr.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def command(command: tuple[str, ...], **given: Any) -> None:
    """Profile a few steps of an untouched training script and say where the time goes.

    COMMAND is a script with its arguments, or, after --, any command that starts one:

    \b
        autotune diagnose train.py --lr 1e-4
        autotune diagnose -- torchrun --nproc-per-node 2 train.py
    """
    report = _stored(given) if given["load"] is not None else _measured(command, given)
    show(render(report, given["format_"], colour=has_colour(given["output"])), given["output"])
    if given["load"] is None and report.run.outcome in FAILED:
        raise SystemExit(ScriptError.exit_code)


def _stored(given: Mapping[str, Any]) -> Report:
    return api.load(given["load"], cwd=Path.cwd(), price=given["price"], asked=_asked(given))


def _asked(given: Mapping[str, Any]) -> OutlookRequest:
    devices = given["devices"]
    wanted = DeviceRequest(devices, given["bandwidth"], given["device_price"]) if devices is not None else None
    return OutlookRequest(given["at"], wanted)


def _measured(command: tuple[str, ...], given: Mapping[str, Any]) -> Report:
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
    options = api.DiagnoseOptions(
        command,
        request,
        python=given["python"],
        price=given["price"],
        lock=not given["no_lock"],
        stdout=stdout,
        asked=_asked(given),
    )
    announced = given["quiet"]
    with ProgressDisplay(quiet=given["quiet"]) as live:

        def show(status: Status) -> None:
            nonlocal announced
            announced = announced or _announce(request)
            live.update(status)

        with watched(command, quiet=given["quiet"]):
            return api.diagnose(options, show, cwd=Path.cwd())


def _announce(request: Request) -> bool:
    """Say what will happen to the job before it starts; always True."""
    after = "the probe detaches after" if request.keep_going else "the job will be stopped after"
    steps = f"{request.steps} steps" if request.steps else f"about {DEFAULT_STEPS} steps"
    replays = " and a few replays of them" if request.what_ifs and not request.keep_going else ""
    print_stderr(f"autotune: {after} {steps}{replays}.")
    return True
