"""Prices of cards, from a file of the user's or from gpuhunt's catalogue (market.py).

    [a100-80]
    usd_per_hour = 1.89
    date = 2026-11-20       # when that was the price
    where = "a market"      # may be left out; the report prints it

There are no prices of our own: they change every week. Every price has the day when it was that.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from msgspec import Struct, ValidationError, convert

from autotune.catalogue.devices import asked
from autotune.errors import UsageError


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """USD per hour of one card, the day of this price, and where it was offered ("" where the source is unknown)."""

    usd_per_hour: float
    date: date
    where: str = ""


class PriceList(Struct, frozen=True):
    """Prices by the names of devices.toml, and what they leave out."""

    by_card: Mapping[str, Price] = {}
    notes: tuple[str, ...] = ()


def read(path: Path) -> PriceList:
    """The prices of a file. Raises UsageError where it cannot be read."""
    try:
        rows = tomllib.loads(path.read_text("utf-8"))
        found = {asked(name, str(path)).name: convert(row, Price) for name, row in rows.items()}
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}", where=str(path)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        to_do = "Write a table for each card: [a100-80] with usd_per_hour = 1.89 and date = 2026-11-20."
        raise UsageError(f"it is no file of prices: {error}", where=str(path), to_do=to_do) from error
    if bad := [name for name, one in found.items() if not 0 < one.usd_per_hour < math.inf]:
        what = f"the price of {bad[0]} is not above 0, or is no finite number"
        raise UsageError(what, where=str(path), to_do="Write USD per hour of one card: usd_per_hour = 1.89.")
    return PriceList(found)
