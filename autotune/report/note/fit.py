"""The note of a plan of memory: which cards a step fits into, the parts of the peak, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from autotune.invocation import typed
from autotune.model.fitted import CardAnswer, CardFit, Fitted, FitVerdict
from autotune.report.note import parts
from autotune.report.note.blocks import (
    Block,
    Bullets,
    Code,
    Figure,
    Item,
    Key,
    Label,
    Note,
    Paragraph,
    Picture,
    Rect,
    Section,
    Segment,
    Shape,
    Table,
)
from autotune.report.text import fit as text
from autotune.report.units import size

ROW = 54
"""Pixels of a row."""

VERDICTS = {
    FitVerdict.FITS: "Fits",
    FitVerdict.TOO_CLOSE: "Too close, do not rent it for this",
    FitVerdict.DOES_NOT_FIT: "Does not fit",
}


def note(fitted: Fitted) -> Note:
    """All of it; what is not known is left out."""
    script = next((PurePath(word).name for word in fitted.command if word.endswith(".py")), typed(fitted.command))
    return Note(
        title=f"Memory and cards: {script or 'a stored run'}",
        about=parts.about(fitted.day, ("Command", Code(typed(fitted.command)) if fitted.command else "")),
        blocks=tuple(_blocks(fitted)),
    )


def _blocks(fitted: Fitted) -> Iterator[Block]:
    if fitted.why_not:
        yield Paragraph(f"Cannot tell: {fitted.why_not}", is_verdict=True)
        if fitted.to_do:
            yield Paragraph(fitted.to_do)
        return
    yield Paragraph(_verdict(fitted), is_verdict=True)
    head, *rows = text.table(fitted)
    numbers = tuple(index for index, name in enumerate(head) if name in ("needs", "of"))
    columns = tuple(name or "verdict" for name in head)
    yield Section("Cards", (Figure(_picture(fitted), Table(columns, tuple(rows), numbers)),))
    known = [card for card in fitted.cards if card.largest is not None or card.usd_per_hour is not None]
    if known:
        blocks: tuple[Block, ...] = (_largest(known),)
        yield Section("The largest micro-batch", (*blocks, Paragraph("By a line through the sizes that were tried.")))
    found = text.parts(fitted)
    if found:
        table = Table(("part", "memory"), tuple(found), (1,))
        yield Section(f"At the peak{text.size_of_parts(fitted)}", (table,))
    notes = (Bullets(tuple(map(Item, fitted.notes))),) if fitted.notes else ()
    yield Section("What it rests on", (Paragraph(f"{_capital(text.basis(fitted))}."), *notes))
    if fitted.any_fits:
        yield Section("On the rented card", (_checklist(fitted),))


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _verdict(fitted: Fitted) -> str:
    """ "Fits: a100-80 (1 x 2048, 2 x 2048). Does not fit: t4 (2 x 2048)."."""
    told = []
    for verdict, words in VERDICTS.items():
        of = [
            f"{card.name} ({', '.join(text.batch(one.need) for one in found)})"
            for card in fitted.cards
            if (found := [one for one in card.fits if one.verdict is verdict])
        ]
        if of:
            told.append(f"{words}: {', '.join(of)}.")
    return " ".join(told)


def _largest(known: list[CardAnswer]) -> Table:
    rows = tuple(
        (
            card.name,
            "not known" if card.largest is None else str(card.largest or "none"),
            size(card.limit),
            text.price(card),
        )
        for card in known
    )
    return Table(("card", "micro-batch", "memory", "price"), rows, (1, 2))


def _picture(fitted: Fitted) -> Picture:
    """A bar for each card and size: what is surely needed, what may be needed as well, and the card as a line."""
    rows = [(card, one) for card in fitted.cards for one in card.fits]
    most = max([1, *(max(card.limit, one.need.high) for card, one in rows)])
    shapes = [shape for index, (card, one) in enumerate(rows) for shape in _row(index, card, one, most)]
    told = [f"{_name(card, one)}: needs {text.need(one.need)} of {size(card.limit)}" for card, one in rows]
    return Picture(
        title="What a step needs, beside the memory of the card",
        description=f"A bar for each card and size, with a line where the card ends. {'; '.join(told)}.",
        height=ROW * len(rows),
        shapes=tuple(shapes),
        legend=(
            Key("part0", "surely needed"),
            Key("predicted", "may be needed too"),
            Key("free", "free"),
            Key("limit", "the end of the card"),
        ),
    )


def _row(index: int, card: CardAnswer, one: CardFit, most: int) -> Iterator[Shape]:
    top = index * ROW
    low, high, limit = (100 * amount / most for amount in (one.need.low, one.need.high, card.limit))
    yield Label(0, top + 16, f"{_name(card, one)}: {text.verdict(one)}")
    if limit > high:
        yield Rect(high, top + 24, limit - high, 22, "free", f"free {size(one.margin)}")
    yield Rect(0, top + 24, low, 22, "part0", f"surely needed {size(one.need.low)}")
    yield Rect(low, top + 24, high - low, 22, "predicted", f"up to {size(one.need.high)}")
    yield Segment(limit, top + 20, limit, top + 50, "limit")


def _name(card: CardAnswer, one: CardFit) -> str:
    return f"{card.name}, {text.batch(one.need)}"


def _checklist(fitted: Fitted) -> Bullets:
    measured = Code("autotune diagnose COMMAND")
    items = [Item((measured, ", there, reports the peak of a few real steps"), "Memory:")]
    if fitted.basis == "fake steps":
        items.append(Item("A batch that is longer than the first one still fits", "Memory:"))
    if any(one.step_ms is not None for card in fitted.cards for one in card.fits):
        items.append(Item("The step is within the range above, which assumes shares of the card's rates", "Speed:"))
    return Bullets(tuple(items), is_checklist=True)
