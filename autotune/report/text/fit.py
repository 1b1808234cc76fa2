"""The answer of `fit`: a line for each card and size, then what it rests on."""

from __future__ import annotations

from autotune.model.fitted import CardAnswer, CardFit, Fitted, FitVerdict, MemoryNeed
from autotune.model.outlook import ValueRange
from autotune.report import next_commands
from autotune.report.text.layout import MIN_WIDTH, StyledLine, cells, pad, paragraph, to_text, wrap, wrap_command
from autotune.report.units import duration, money, size, step_time

HEAD = ("card", "batch", "needs", "of", "", "step", "run", "price")
"""Of `rows`; without a name stands the verdict."""

_STYLES = {FitVerdict.FITS: "apply", FitVerdict.TOO_CLOSE: "decide", FitVerdict.DOES_NOT_FIT: "bad"}


def render(fitted: Fitted, colour: bool, width: int) -> str:
    """The report as text."""
    width = max(MIN_WIDTH, width)
    if fitted.why_not:
        lines = paragraph("Cannot tell", fitted.why_not, width)
        return to_text([*lines, *wrap(fitted.to_do, width)], colour, width)
    of = size_of_parts(fitted)
    lines = [*_table(fitted), StyledLine(""), *paragraph(LARGEST, ", ".join(largest(fitted)), width)]
    lines += paragraph(f"At the peak{of}", ", ".join(f"{name} {amount}" for name, amount in parts(fitted)), width)
    if told := prices(fitted):
        lines += paragraph("Prices of a card", "; ".join(f"{name} {price}" for name, price in told), width)
    lines += paragraph("Basis", basis(fitted), width)
    for note in fitted.notes:
        lines += paragraph("Note", note, width)
    for one in next_commands.of_fitted(fitted):
        lines += wrap_command("Next", one.command, one.why, 0, width)
    return to_text(lines, colour, width)


def _table(fitted: Fitted) -> list[StyledLine]:
    """A row is as wide as it is."""
    head, *made = table(fitted)
    columns = [max(map(cells, column)) for column in zip(head, *made, strict=True)]
    texts = ["  ".join(pad(text, room) for text, room in zip(row, columns, strict=True)) for row in (head, *made)]
    styles = ["heading", *(_STYLES[one.verdict] for card in fitted.cards for one in card.fits)]
    return [StyledLine(text.rstrip(), style, whole=True) for text, style in zip(texts, styles, strict=True)]


def table(fitted: Fitted) -> list[tuple[str, ...]]:
    """The head, and a row for each card and size: the columns that hold something."""
    rows = [_row(card, one) for card in fitted.cards for one in card.fits]
    used = [index for index in range(len(HEAD)) if any(row[index] for row in rows)]
    return [tuple(row[index] for index in used) for row in (HEAD, *rows)]


def _row(card: CardAnswer, one: CardFit) -> tuple[str, ...]:
    return (
        card.name,
        batch(one.need),
        need(one.need),
        f"{_gib(card.limit)} GiB",
        verdict(one),
        _range(one.step_ms, step_time),
        _range(one.run_s, duration),
        _range(one.usd, money),
    )


def batch(of: MemoryNeed) -> str:
    """ "4 x 2048": samples and tokens of each."""
    samples = "?" if of.samples is None else str(of.samples)
    return f"{samples} x {of.length}" if of.length is not None else samples


def need(of: MemoryNeed) -> str:
    """ "1.28-2.58 GiB"."""
    return f"{_gib(of.low)}-{_gib(of.high)} GiB"


def verdict(one: CardFit) -> str:
    """ "fits, 77 GiB free", "too close"."""
    return f"fits, {size(one.margin)} free" if one.verdict is FitVerdict.FITS else one.verdict.value


def _gib(num_bytes: float) -> str:
    amount = num_bytes / 2**30
    return f"{amount:.2f}" if amount < 9.95 else f"{amount:.1f}"


def _range(value: ValueRange | None, words: object) -> str:
    if value is None or not callable(words):
        return ""
    low, high = str(words(value.low)), str(words(value.high))
    return low if low == high else f"{low} to {high}"


LARGEST = "Largest micro-batch that fits, by a line through the sizes that were tried"


def largest(fitted: Fitted) -> list[str]:
    """ "a100-80 45", of each card of which it is known."""
    known = [card for card in fitted.cards if card.largest is not None]
    return [f"{card.name} {card.largest}" if card.largest else f"{card.name} none" for card in known]


def prices(fitted: Fitted) -> list[tuple[str, str]]:
    """Name and price of each card that has one: "$1.89 an hour, 2026-11-20, runpod, spot"."""
    return [(card.name, price(card)) for card in fitted.cards if card.usd_per_hour is not None]


def price(card: CardAnswer) -> str:
    """ "$1.89 an hour, 2026-11-20, runpod, spot"; "-" where it has none."""
    if card.usd_per_hour is None:
        return "-"
    return ", ".join(filter(None, [f"{money(card.usd_per_hour)} an hour", card.price_date, card.price_where]))


def parts(fitted: Fitted) -> list[tuple[str, str]]:
    """Name and size, of the first size on the first card: its parts are those of every card."""
    needs = [one.need for card in fitted.cards[:1] for one in card.fits[:1]]
    return [(name, size(amount)) for of in needs for name, amount in of.parts.items() if amount]


def size_of_parts(fitted: Fitted) -> str:
    """ " of a micro-batch of 4": what `parts` is of; "" where that is unknown."""
    needs = [one.need for card in fitted.cards[:1] for one in card.fits[:1]]
    return f" of a micro-batch of {needs[0].samples}" if needs and needs[0].samples is not None else ""


def basis(fitted: Fitted) -> str:
    """What was done, and what is assumed."""
    if fitted.basis == "memory budget":
        return "the memory budget of a stored diagnosis, with CUDA's context; times are not known"
    shared = ""
    if fitted.sharding is not None:
        shared = f"; divided among {fitted.num_devices} cards by arithmetic ({fitted.sharding})"
    took = f"a step of the script on tensors without memory, in {duration(fitted.seconds)}{shared}"
    times = f"times of {fitted.steps:,} steps by a roofline with assumed shares of the card's peak rates"
    return f"{took}; CUDA's context, workspaces and fragmentation are in the upper end; {times}"
