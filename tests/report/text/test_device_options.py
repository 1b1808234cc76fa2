from __future__ import annotations

import pytest
from msgspec.structs import replace
from report_builders import report, run, step

from autotune.model.outlook import Comparison, DeviceSetup, Outlook, ValueRange
from autotune.report.text import device_options

NOW = DeviceSetup(
    "1, as it is",
    1,
    ValueRange(2**30, 2**30, "measured"),
    ValueRange(0, 0, "measured"),
    ValueRange(100, 100, "measured"),
    3.6,
    "-",
    "-",
)
DDP = DeviceSetup(
    "2, DDP",
    2,
    None,
    ValueRange(1, 20, "assumed"),
    ValueRange(51.0, 70.0, "assumed"),
    7.2,
    "torchrun",
    "new order",
)


def printed(comparison: Comparison | None) -> list[str]:
    made = replace(report(run=run(), step=step(forward=1.0)), outlook=Outlook(comparison=comparison))
    return [line.text.rstrip() for line in device_options.lines(made, 80)]


def test_nothing_unless_it_was_asked_for() -> None:
    assert printed(None) == []


def test_why_there_is_none() -> None:
    assert printed(Comparison(why_not="the run has two processes")) == [
        "Options: not computed, the run has two processes."
    ]


def test_every_cell_says_what_it_rests_on() -> None:
    assert printed(Comparison((NOW, DDP), 36_000, ("20 GB/s", "no latency"))) == [
        "Options, 36,000 steps (m measured, c modelled, a rests on an assumption)",
        "  devices      memory of each  exposed comm.   step",
        "  1, as it is  1.0 GiB m       none            100 ms m",
        "      1 h 0 min, $3.60; effort: -; risk: -",
        "  2, DDP       ?               1.00-20.0 ms a  51.0-70.0 ms a",
        "      31 min to 42 min, $3.67 to $5.04; effort: torchrun; risk: new order",
        "  Assumed: 20 GB/s; no latency.",
    ]


@pytest.mark.parametrize(
    ("fits", "high", "said"),
    [
        (True, 14, "fits into 15 GiB; "),
        (None, 16, "too close to 15 GiB; "),
        (False, 17, "does not fit into 15 GiB; "),
        (None, 14, "cannot tell whether it fits into 15 GiB; "),
    ],
)
def test_whether_it_fits_is_told_with_what_a_device_has(fits: bool | None, high: int, said: str) -> None:
    gib = 2**30
    memory = ValueRange(16 * gib if fits is False else 13 * gib, high * gib, "modelled")
    setup = replace(DDP, memory=memory, fits=fits, limit_bytes=15 * gib)
    assert device_options.run_of_setup(setup, Comparison((setup,), 10)).startswith(said)


def test_without_a_price_there_is_no_cost() -> None:
    assert "$" not in "".join(printed(Comparison((replace(NOW, usd_per_hour=None),), 10)))
