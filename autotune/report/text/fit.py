"""The answer of `fit`: a line for each card and size, then what it rests on."""

from __future__ import annotations

from autotune.model.fitted import CardAnswer, CardFit, Fitted, FitVerdict
from autotune.model.outlook import ValueRange
from autotune.report.text.layout import MIN_WIDTH, StyledLine, cells, pad, paragraph, to_text, wrap
from autotune.report.units import duration, money, size, step_time

_HEAD = ("card", "batch", "needs", "of", "", "step", "run", "price")
_STYLES = {FitVerdict.FITS: "apply", FitVerdict.TOO_CLOSE: "decide", FitVerdict.DOES_NOT_FIT: "bad"}


def render(fitted: Fitted, colour: bool, width: int) -> str:
    """The report as text."""
    width = max(MIN_WIDTH, width)
    if fitted.why_not:
        lines = paragraph("Cannot tell", fitted.why_not, width)
        return to_text([*lines, *wrap(fitted.to_do, width)], colour, width)
    lines = [*_table(fitted), StyledLine(""), *_largest(fitted, width), *_parts(fitted, width)]
    lines += paragraph("Basis", _basis(fitted), width)
    for note in fitted.notes:
        lines += paragraph("Note", note, width)
    return to_text(lines, colour, width)


def _table(fitted: Fitted) -> list[StyledLine]:
    """The columns that hold something; a row is as wide as it is."""
    rows = [(card, one) for card in fitted.cards for one in card.fits]
    texts = [_HEAD, *(_row(card, one) for card, one in rows)]
    used = [index for index in range(len(_HEAD)) if any(text[index] for text in texts[1:])]
    columns = [max(cells(text[index]) for text in texts) for index in used]
    made = ["  ".join(pad(text[index], room) for index, room in zip(used, columns, strict=True)) for text in texts]
    styles = ["heading", *(_STYLES[one.verdict] for _, one in rows)]
    return [StyledLine(text.rstrip(), style, whole=True) for text, style in zip(made, styles, strict=True)]


def _row(card: CardAnswer, one: CardFit) -> tuple[str, ...]:
    samples = "?" if one.need.samples is None else str(one.need.samples)
    return (
        card.name,
        f"{samples} x {one.need.length}" if one.need.length is not None else samples,
        f"{_gib(one.need.low)}-{_gib(one.need.high)} GiB",
        f"{_gib(card.limit)} GiB",
        f"fits, {size(one.margin)} free" if one.verdict is FitVerdict.FITS else one.verdict,
        _range(one.step_ms, step_time),
        _range(one.run_s, duration),
        _range(one.usd, money),
    )


def _gib(num_bytes: float) -> str:
    amount = num_bytes / 2**30
    return f"{amount:.2f}" if amount < 9.95 else f"{amount:.1f}"


def _range(value: ValueRange | None, words: object) -> str:
    if value is None or not callable(words):
        return ""
    low, high = str(words(value.low)), str(words(value.high))
    return low if low == high else f"{low} to {high}"


def _largest(fitted: Fitted, width: int) -> list[StyledLine]:
    known = [card for card in fitted.cards if card.largest is not None]
    texts = [f"{card.name} {card.largest}" if card.largest else f"{card.name} none" for card in known]
    return paragraph(
        "Largest micro-batch that fits, by a line through the sizes that were tried", ", ".join(texts), width
    )


def _parts(fitted: Fitted, width: int) -> list[StyledLine]:
    """Of the first size, on the first card: its parts are those of every card."""
    needs = [one.need for card in fitted.cards[:1] for one in card.fits[:1]]
    texts = [f"{name} {size(amount)}" for need in needs for name, amount in need.parts.items() if amount]
    of = f" of a micro-batch of {needs[0].samples}" if needs and needs[0].samples is not None else ""
    return paragraph(f"At the peak{of}", ", ".join(texts), width)


def _basis(fitted: Fitted) -> str:
    if fitted.basis == "memory budget":
        return "the memory budget of a stored diagnosis, with CUDA's context; times are not known"
    shared = ""
    if fitted.sharding is not None:
        shared = f"; divided among {fitted.num_devices} cards by arithmetic ({fitted.sharding})"
    took = f"a step of the script on tensors without memory, in {duration(fitted.seconds)}{shared}"
    times = f"times of {fitted.steps:,} steps by a roofline with assumed shares of the card's peak rates"
    return f"{took}; CUDA's context, workspaces and fragmentation are in the upper end; {times}"
