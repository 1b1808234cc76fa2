"""autotune fit: a script and cards in, what fits out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from autotune.catalogue.devices import Device, asked, devices
from autotune.cli import options
from autotune.cli.output import has_colour, show
from autotune.cli.script_command import explain_misplaced_options, resolve_command
from autotune.errors import UsageError
from autotune.fit import market, prices
from autotune.fit.fit import FitOptions, fit, load
from autotune.model.fitted import Fitted, Sharding
from autotune.outlet import print_stderr
from autotune.report import render
from autotune.report.live import ProgressDisplay

NOTHING_FITS = 1
"""The exit code where none of the sizes that were asked for surely fits into any of the cards."""

ON = "Cards, e.g. a100-80,h100-80,4090 (default: all that are known)."
BATCH = "Samples of a micro-batch, e.g. 4,8,16 (default: the script's own)."
LENGTH = "Tokens of a sequence (default: as in the script's first batch)."
DEVICES = "So many cards share a step, each with a micro-batch of its own."
SHARD = "What they share (default: ddp, each has all of it)."
RUN_STEPS = "Optimizer steps of the run: times and prices are of so many (default: 1000)."
PRICES = (
    "A TOML file with the price of each card: [a100-80] with usd_per_hour and date. Or gpuhunt: the lowest prices of "
    "its catalogue (the extra prices)."
)


class _PricesType(click.Path):
    """A file of prices, or the name of the catalogue; ./gpuhunt is a file."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return value if value == market.NAME else super().convert(value, parameter, context)


_PRICES = _PricesType(dir_okay=False, path_type=Path)


def _sizes(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    """Whole numbers above 0, between commas."""
    words = options.names(context, parameter, texts)
    if bad := [word for word in words if not word.isdecimal() or int(word) < 1]:
        raise click.BadParameter(f"{bad[0]!r} is no whole number above 0", context, parameter)
    return tuple(map(int, words))


@click.command(context_settings=options.BEFORE_A_COMMAND)
@options.on(ON, multiple=True, metavar="CARDS", callback=options.names)
@click.option("--batch", "batches", multiple=True, metavar="SIZES", callback=_sizes, help=BATCH)
@click.option("--length", "lengths", multiple=True, metavar="LENGTHS", callback=_sizes, help=LENGTH)
@click.option("--devices", type=click.IntRange(min=1), default=1, help=DEVICES)
@click.option("--shard", type=click.Choice([one.value for one in Sharding]), help=SHARD)
@click.option("--run-steps", type=click.IntRange(min=1), help=RUN_STEPS)
@click.option("--price", type=_PRICES, metavar="FILE|gpuhunt", help=PRICES)
@options.load("Answer from the memory budget of a stored diagnosis (last: the newest); starts nothing.")
@options.startup_limit
@options.python()
@options.format_of("fit")
@options.output
@options.no_lock
@options.quiet
@options.script_command
def command(command: tuple[str, ...], **given: Any) -> int:
    """Say whether a training step fits into a card, how large a micro-batch may be, and what a run would take.

    The script is started and trains for a few steps on tensors that take no memory: no GPU is needed, and none is
    touched. COMMAND is a script with its arguments, or, after --, any command that starts one:

    \b
        autotune fit --on a100-80,h100-80 --batch 4,8,16 train.py
        autotune fit --on a100-80 --devices 8 --shard fsdp train.py

    Exits with 1 where nothing that was asked for surely fits.
    """
    if given["shard"] is not None and given["devices"] == 1:
        raise UsageError("one card shares nothing", where="--shard", to_do="Say how many there are: --devices 8.")
    fitted = _load(given) if given["load"] is not None else _measure(command, given)
    show(render("fit", fitted, given["format_"], colour=has_colour(given["output"])), given["output"])
    return 0 if fitted.any_fits else NOTHING_FITS


def _options(words: tuple[str, ...], given: dict[str, Any]) -> FitOptions:
    shard = given["shard"] or (Sharding.DDP.value if given["devices"] > 1 else None)
    # Where the report goes to stdout for a program, the script's own output goes elsewhere.
    is_for_program = given["format_"] != "text" and given["output"] is None
    cards = tuple(dict.fromkeys(map(asked, given["on"]))) or tuple(devices().values())
    return FitOptions(
        words,
        cards,
        given["batches"],
        given["lengths"],
        given["devices"],
        Sharding(shard) if shard is not None else None,
        given["run_steps"],
        _prices(given["price"], cards, given["devices"]),
        python=given["python"],
        lock=not given["no_lock"],
        stdout=sys.stderr.fileno() if is_for_program else None,
        startup_limit_s=given["startup_limit"],
    )


def _prices(source: Path | str | None, cards: tuple[Device, ...], num_devices: int) -> prices.PriceList:
    """Of a file, of the catalogue, or none."""
    if source is None:
        return prices.PriceList()
    return prices.read(source) if isinstance(source, Path) else market.prices(cards, num_devices)


def _load(given: dict[str, Any]) -> Fitted:
    if given["devices"] > 1 or given["lengths"]:
        what = "the memory budget of a run tells nothing of other lengths or several cards"
        raise UsageError(what, where="--load", to_do="Give the script instead of --load.")
    return load(given["load"], _options((), given), cwd=Path.cwd())


def _measure(command: tuple[str, ...], given: dict[str, Any]) -> Fitted:
    resolved = resolve_command(command, "fit", given["python"])
    asked_for = _options(resolved.words, {**given, "python": resolved.python})
    if not given["quiet"]:
        print_stderr("autotune: the script runs on tensors without memory; nothing is trained")
    with (
        ProgressDisplay(quiet=given["quiet"], is_shared=True) as live,
        explain_misplaced_options(resolved.words, quiet=given["quiet"]),
    ):
        return fit(asked_for, live.update, cwd=resolved.cwd)
