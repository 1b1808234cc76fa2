"""The lowest prices of cards in gpuhunt's catalogue, which dstack collects from clouds every day.

Only the providers that are published with a version count, because that begins with the day of the prices
(20261120-42); those that gpuhunt asks at once tell no day.
"""

from __future__ import annotations

import logging
import math
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from autotune.catalogue.devices import Device, Market
from autotune.errors import UsageError
from autotune.fit.prices import Price, PriceList

if TYPE_CHECKING:
    from gpuhunt import CatalogItem

NAME = "gpuhunt"
"""What --price calls the catalogue."""

PROVIDERS = ("aws", "azure", "gcp", "lambdalabs", "nebius", "oci", "runpod", "verda", "cloudrift")
"""Whose parts are published with their day, as of gpuhunt 0.1.34; it leaves out silently what it cannot read."""

ORDINARY = frozenset(("gcp-a4", "gcp-g4", "oci-spot"))
"""Flags of machines that are rented like any other: gpuhunt hides them from older programs. An offer with another flag
is none for everybody: a reservation ahead (gcp-dws-calendar-mode), machines in twos to eights (runpod-cluster)."""

MOST_IN_A_MACHINE = 8
"""Of more cards than that, several machines are rented."""

SAME_MEMORY = 0.07
"""Share by which the memory of an offer may differ from what the card is sold with: some count what a driver shows."""

FORMS = (("pcie", re.compile(r"pcie", re.IGNORECASE)), ("sxm", re.compile(r"sxm|hbm3", re.IGNORECASE)))
"""A card's form where the name of a machine tells it: gpu_1x_h100_pcie, NVIDIA A100-SXM4-80GB."""

LIMIT_S = 30.0
"""Seconds without a byte from the catalogue's server, in each of its answers."""

MOST_NAMED = 5
"""So many cards without an offer are named; the others are counted."""

ELSEWHERE = "Give prices of your own: --price prices.toml."


class Part(Struct, frozen=True):
    """What the catalogue has of one provider on a day."""

    day: date
    items: Sequence[CatalogItem]


class Offer(Struct, frozen=True):
    """A machine of one provider on a day: USD per hour of each of its cards."""

    usd_per_hour: float
    day: date
    provider: str
    is_spot: bool
    form: str | None


def prices(cards: Sequence[Device], num_devices: int) -> PriceList:
    """The lowest price of each of `cards` that can be rented in machines for `num_devices` of them.

    Raises UsageError where gpuhunt is not installed, or its catalogue cannot be read.
    """
    parts = _loaded()
    found = {}
    for card in cards:
        if card.market is not None and (offers := list(_offers(parts, card.market, num_devices))):
            found[card.name] = _price(offers, card.market)
    unread = [name for name in PROVIDERS if name not in parts]
    without = [card.name for card in cards if card.name not in found]
    return PriceList(found, tuple(_notes(unread, without, num_devices)))


def _loaded() -> Mapping[str, Part]:
    """The parts of the catalogue whose day is known, by provider."""
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
    days = {name: _day(part.version) for name, part in catalogue.catalog.items()}
    parts = {name: Part(day, catalogue.catalog[name].items) for name, day in days.items() if day is not None}
    if not parts:
        raise UsageError("no part of its catalogue tells its day", where="--price gpuhunt", to_do=ELSEWHERE)
    return parts


def _notes(unread: Sequence[str], without: Sequence[str], num_devices: int) -> Iterator[str]:
    """What the lowest prices do not know: these providers, and these cards."""
    if unread:
        yield f"prices without {', '.join(unread)}: that part of gpuhunt's catalogue could not be read, or tells no day"
    if without:
        more = f" and {len(without) - MOST_NAMED} more" if len(without) > MOST_NAMED else ""
        which = f"{', '.join(without[:MOST_NAMED])}{more}"
        yield f"gpuhunt's catalogue has no offer of {which} in machines for {num_devices} card{'s' * (num_devices > 1)}"


def _offers(parts: Mapping[str, Part], market: Market, num_devices: int) -> Iterator[Offer]:
    """What is offered of a card for `num_devices`."""
    for provider, part in parts.items():
        for item in part.items:
            form = _form(item.instance_name)
            is_form = None in (market.form, form) or market.form == form
            if is_form and _is_of(item, market) and _makes(num_devices, item.gpu_count):
                yield Offer(item.price / item.gpu_count, part.day, provider, item.spot, form)


def _day(version: str) -> date | None:
    """The day that a version of the catalogue begins with."""
    try:
        return datetime.strptime(version.partition("-")[0], "%Y%m%d").date()
    except ValueError:
        return None


def _is_of(item: CatalogItem, market: Market) -> bool:
    """Whether anybody can rent this machine, at a price, and its cards are these."""
    if not item.gpu_count or not 0 < item.price < math.inf or not ORDINARY.issuperset(item.flags):
        return False
    if (item.gpu_name or "").lower() != market.name.lower():
        return False
    return item.gpu_memory is not None and abs(item.gpu_memory - market.memory) <= SAME_MEMORY * market.memory


def _form(instance: str) -> str | None:
    return next((form for form, pattern in FORMS if pattern.search(instance)), None)


def _makes(num_devices: int, num_cards: int) -> bool:
    """Whether machines of `num_cards` make `num_devices` cards, as few of them as there can be."""
    return num_devices % num_cards == 0 and num_cards >= min(num_devices, MOST_IN_A_MACHINE)


def _price(offers: Iterable[Offer], market: Market) -> Price:
    """The lowest, and where it is a spot machine's the lowest that nobody takes away."""
    ordered = sorted(offers, key=lambda one: one.usd_per_hour)
    lowest = ordered[0]
    lasting = next((one for one in ordered if not one.is_spot), None)
    where = f"{lowest.provider}, {'spot' if lowest.is_spot else 'on demand'}"
    if lowest.is_spot and lasting is not None:
        where += f" (on demand ${lasting.usd_per_hour:,.2f} at {lasting.provider}, {lasting.day})"
    if market.form is not None and lowest.form is None:
        where += ", SXM or PCIe not told"
    return Price(lowest.usd_per_hour, lowest.day, where)
