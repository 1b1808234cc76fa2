"""What a report says beside, where it is asked for: whether to restart a running job, and other devices.

`load_asked` is the report of a stored run with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from autotune.apply import promises
from autotune.catalogue.devices import asked as asked_card
from autotune.cli import options
from autotune.diagnose.diagnose import load
from autotune.diagnose.outlook import OutlookRequest
from autotune.errors import UsageError
from autotune.model.outlook import ProgressLine
from autotune.model.report import Report
from autotune.outlet import print_stderr
from autotune.predict.device_options import DeviceRequest
from autotune.predict.progress_line import progress

AT = (
    'Progress of a running job, "step 1200/50000" or its progress bar: advise whether to restart it, and whether it is '
    "as fast as expected."
)
OPTIONS = "Compare with the same run on this many devices: DDP, ZeRO-2, FSDP."
ON = "Compare with one card of another kind, e.g. a100-80,h100-80; fit plans where this device is no listed card."
BANDWIDTH = "Between devices, for --options (default: assumed)."
DEVICE_PRICE = "USD per hour of one device, for --options (default: --price)."
POSITIVE = click.FloatRange(min=0, min_open=True)


def _progress(context: click.Context, parameter: click.Parameter, text: str | None) -> ProgressLine | None:
    """The line of --at, read before anything is measured."""
    return None if text is None else progress(text)


def outlook(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options; `outlook_request` reads them."""
    for option in (
        click.option("--device-price", type=float, help=DEVICE_PRICE),
        click.option("--bandwidth", type=POSITIVE, metavar="GB/S", help=BANDWIDTH),
        options.on(ON, multiple=True, metavar="CARDS", callback=options.names),
        click.option("--options", "devices", type=click.IntRange(min=2), metavar="DEVICES", help=OPTIONS),
        click.option("--at", callback=_progress, metavar="PROGRESS", help=AT),
    ):
        function = option(function)
    return function


def outlook_request(given: Mapping[str, Any]) -> OutlookRequest:
    """What these options ask for. Raises UsageError for an option without effect."""
    devices, cards = given["devices"], tuple(dict.fromkeys(map(asked_card, given["on"])))
    for name in ("device_price", "bandwidth"):
        if given[name] is not None and devices is None:
            where = f"--{name.replace('_', '-')}"
            raise UsageError("it is of several devices", where=where, to_do="Say how many there are: --options 4.")
    wanted = DeviceRequest(devices or 1, given["bandwidth"], given["device_price"], cards)
    return OutlookRequest(given["at"], wanted if devices is not None or cards else None)


def load_asked(name: str, given: Mapping[str, Any]) -> Report:
    """The report of a stored run, with what these options ask for; a promise that a job kept or broke is remembered."""
    asked = outlook_request(given)
    report = load(name, cwd=Path.cwd(), price=given["price"], asked=asked)
    if asked.at is not None:
        try:
            if promises.record(report, asked.at, time.time()):
                print_stderr("autotune: this job has the changes: its speed calibrates later predictions")
        except (OSError, UsageError) as error:
            print_stderr(f"autotune: {promises.why_not_written(error)}")
    return report
