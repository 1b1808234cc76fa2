"""What `fit` found: what a training step needs, and what of that which card has. Sizes are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from autotune.model.outlook import ValueRange


class FitVerdict(StrEnum):
    """Whether a step fits into a card."""

    FITS = "fits"
    TOO_CLOSE = "too close"
    """The limit lies within the interval of the need: it may fit."""

    DOES_NOT_FIT = "does not fit"


class Sharding(StrEnum):
    """What several cards keep a part of each."""

    DDP = "ddp"
    ZERO_1 = "zero1"
    ZERO_2 = "zero2"
    ZERO_3 = "zero3"
    FSDP = "fsdp"
    FSDP_1 = "fsdp1"


class MemoryNeed(Struct, frozen=True):
    """The memory of one card for one size of a step: its interval, and the parts of the lower end.

    `samples` and `length` are those of a micro-batch; None is unknown.
    """

    samples: int | None
    length: int | None
    low: int
    high: int
    parts: Mapping[str, int]


class CardFit(Struct, frozen=True):
    """One size of a step on a card. `margin` is the limit minus the upper end: negative where it may be too much.

    `step_ms` is None where nothing is known of the time; `run_s` is that of `steps`, `usd` its price on all cards.
    """

    need: MemoryNeed
    verdict: FitVerdict
    margin: int
    step_ms: ValueRange | None
    run_s: ValueRange | None
    usd: ValueRange | None


class CardAnswer(Struct, frozen=True):
    """A card with `limit` bytes. `largest` is the largest micro-batch that fits; None is unknown, 0 is none.

    `usd_per_hour` of one card, as seen on `price_date` at `price_where` ("" is not told).
    """

    name: str
    title: str
    limit: int
    fits: tuple[CardFit, ...]
    largest: int | None = None
    usd_per_hour: float | None = None
    price_date: str = ""
    price_where: str = ""


class Fitted(Struct, frozen=True):
    """All of it. `basis` is "fake steps" or "memory budget"; `why_not` says why nothing can be told, else "".

    `steps` is how many optimizer steps times and prices are of; `seconds` is what the answer took, on `day`. `run` is
    the stored run that keeps the answer, "" where none does.
    """

    command: tuple[str, ...]
    basis: Literal["fake steps", "memory budget"]
    cards: tuple[CardAnswer, ...]
    num_devices: int
    sharding: Sharding | None
    steps: int
    seconds: float
    notes: tuple[str, ...] = ()
    why_not: str = ""
    to_do: str = ""
    day: str = ""
    run: str = ""

    @property
    def any_fits(self) -> bool:
        """Whether one of the sizes that were asked for surely fits into one of the cards."""
        return any(one.verdict is FitVerdict.FITS for card in self.cards for one in card.fits)
