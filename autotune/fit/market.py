"""The lowest prices of cards in gpuhunt's catalogue, which dstack collects from clouds every day.

Only the providers that are published with a version count, because that begins with the day of the prices
(20261120-42); those that gpuhunt asks at once tell no day.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from autotune.catalogue.devices import Device, Market, devices
from autotune.errors import UsageError
from autotune.fit.prices import Price

if TYPE_CHECKING:
    from gpuhunt import Catalog, CatalogItem

NAME = "gpuhunt"
"""What --price calls the catalogue."""

MOST_IN_A_MACHINE = 8
"""Of more cards than that, several machines are rented."""

SAME_MEMORY = 0.07
"""Share by which the memory of an offer may differ from what the card is sold with: some count what a driver shows."""

FORMS = (("pcie", re.compile(r"pcie", re.IGNORECASE)), ("sxm", re.compile(r"sxm|hbm3", re.IGNORECASE)))
"""A card's form where the name of a machine tells it: gpu_1x_h100_pcie, NVIDIA A100-SXM4-80GB."""

LIMIT_S = 30.0
"""Seconds until an answer of the catalogue's server."""

ELSEWHERE = "Give prices of your own: --price prices.toml."


class Offer(Struct, frozen=True):
    """A machine of one provider on a day: USD per hour of each of its cards."""

    usd_per_hour: float
    day: date
    provider: str
    num_cards: int
    is_spot: bool
    form: str | None


def prices(num_devices: int) -> Mapping[str, Price]:
    """The lowest price of each listed card that can be rented in machines for `num_devices` of them.

    Raises UsageError where gpuhunt is not installed, or its catalogue cannot be read.
    """
    catalogue = _loaded()
    found = {}
    for card in devices().values():
        offers = [one for one in _offers(catalogue, card.market) if _suits(one, card.market, num_devices)]
        if offers:
            found[card.name] = _price(offers, card)
    return found


def _loaded() -> Catalog:
    try:
        from gpuhunt import Catalog  # of the extra "prices": nothing else needs it
    except ImportError as error:
        to_do = 'Install it beside autotune: pip install "autotune-advisor[prices]"'
        raise UsageError(f"the package gpuhunt is missing: {error}", where="--price gpuhunt", to_do=to_do) from error
    catalogue = Catalog(auto_reload=False)
    log, limit = logging.getLogger(NAME), socket.getdefaulttimeout()
    level = log.level
    try:
        # It logs a traceback for each provider that cannot be read, and sets no limit of time.
        log.setLevel(logging.CRITICAL + 1)
        socket.setdefaulttimeout(LIMIT_S)
        catalogue.load()
    except Exception as error:
        why = error.__cause__ or error
        raise UsageError(f"its catalogue cannot be read: {why}", where="--price gpuhunt", to_do=ELSEWHERE) from error
    finally:
        log.setLevel(level)
        socket.setdefaulttimeout(limit)
    if not any(_day(one.version) for one in catalogue.catalog.values()):
        raise UsageError("no part of its catalogue tells its day", where="--price gpuhunt", to_do=ELSEWHERE)
    return catalogue


def _offers(catalogue: Catalog, market: Market | None) -> Iterator[Offer]:
    """What is offered of a card, of the parts of the catalogue whose day is known."""
    for provider, part in catalogue.catalog.items():
        day = _day(part.version)
        if market is None or day is None:
            continue
        for item in part.items:
            if _is_of(item, market):
                each = item.price / item.gpu_count
                yield Offer(each, day, provider, item.gpu_count, item.spot, _form(item.instance_name))


def _day(version: str) -> date | None:
    """The day that a version of the catalogue begins with."""
    try:
        return datetime.strptime(version.partition("-")[0], "%Y%m%d").date()
    except ValueError:
        return None


def _is_of(item: CatalogItem, market: Market) -> bool:
    if not item.gpu_count or item.price <= 0 or (item.gpu_name or "").lower() != market.name.lower():
        return False
    return item.gpu_memory is not None and abs(item.gpu_memory - market.memory) <= SAME_MEMORY * market.memory


def _form(instance: str) -> str | None:
    return next((form for form, pattern in FORMS if pattern.search(instance)), None)


def _suits(offer: Offer, market: Market | None, num_devices: int) -> bool:
    """Whether machines of this kind make `num_devices` cards, as few of them as there can be, of the form asked for."""
    is_form = market is None or None in (market.form, offer.form) or market.form == offer.form
    return is_form and num_devices % offer.num_cards == 0 and offer.num_cards >= min(num_devices, MOST_IN_A_MACHINE)


def _price(offers: Iterable[Offer], card: Device) -> Price:
    """The lowest, and where it is a spot machine's the lowest that nobody takes away."""
    ordered = sorted(offers, key=lambda one: one.usd_per_hour)
    lowest = ordered[0]
    lasting = next((one for one in ordered if not one.is_spot), None)
    where = f"{lowest.provider}, {'spot' if lowest.is_spot else 'on demand'}"
    if lowest.is_spot and lasting is not None:
        where += f" (on demand ${lasting.usd_per_hour:,.2f} at {lasting.provider}, {lasting.day})"
    if card.market is not None and card.market.form is not None and lowest.form is None:
        where += ", SXM or PCIe not told"
    return Price(lowest.usd_per_hour, lowest.day, where)
