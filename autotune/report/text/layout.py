"""Lines of a terminal: cleaned, measured in columns, shortened, wrapped and styled."""

from __future__ import annotations

from collections.abc import Iterable

import click
from msgspec import Struct

from autotune.outlet import clean, plain

MIN_WIDTH = 60
_CUT = "..."
_STYLES: dict[str, dict[str, str | bool]] = {
    "heading": {"bold": True},
    "apply": {"bold": True, "fg": "green"},
    "decide": {"bold": True, "fg": "yellow"},
    "bad": {"bold": True, "fg": "red"},
}


class StyledLine(Struct, frozen=True):
    """One line without its end; `style` is a key of the styles above, "" for plain. A `whole` one is never cut."""

    text: str
    style: str = ""
    whole: bool = False


def cells(text: str) -> int:
    """Columns that `text` takes: two for wide characters, none for combining ones."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def _cell(char: str) -> int:
    import unicodedata  # ASCII needs no look at it

    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, limit: int) -> str:
    """`text` in at most `limit` columns (4 at least); what is cut is its middle, a third from the start."""
    if cells(text) <= limit:
        return text
    head = (limit - len(_CUT)) // 3
    tail = limit - len(_CUT) - head
    return _take(text, head) + _CUT + _take(text[::-1], tail)[::-1]


def _take(text: str, limit: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += _cell(char)
        if used > limit:
            return text[:index]
    return text


def wrap(text: str, width: int, *, first: str = "", rest: str = "") -> list[StyledLine]:
    """`text` in lines of at most `width` columns; `first` starts the first one, `rest` the others.

    A word that is longer than a line is shortened in its middle: such words are paths.
    """
    lines, current = [], first
    empty = True
    for word in clean(text).split():
        fitted = shorten(word, width - max(cells(first), cells(rest)))
        if not empty and cells(current) + 1 + cells(fitted) > width:
            lines.append(StyledLine(current))
            current, empty = rest, True
        current += fitted if empty else f" {fitted}"
        empty = False
    return [*lines, StyledLine(current.rstrip())]


def with_label(label: str, text: str, width: int) -> list[StyledLine]:
    """`text` beside `label` (seen, fix, price ...), as the recommendations have it."""
    return wrap(text, width, first=f"  {label:<6} ", rest=" " * 9)


def to_copy(label: str, text: str) -> StyledLine:
    """`text` beside `label`, to be to_copy: in one line, however long."""
    return StyledLine(f"  {label:<6} {clean(text)}", whole=True)


def paragraph(head: str, text: str, width: int) -> list[StyledLine]:
    """`head: text`, further lines indented by two; nothing when there is no text."""
    return wrap(f"{head}: {text}", width, rest="  ") if text else []


def spread(left: str, right: str, width: int, style: str = "") -> list[StyledLine]:
    """`left` and, flush right, `right`; on a line of its own when both do not fit on one."""
    left = shorten(clean(left), width)
    gap = width - cells(left) - cells(right)
    if not right:
        return [StyledLine(left, style)]
    if gap < 2:
        return [StyledLine(left, style), StyledLine(" " * max(width - cells(right), 0) + right, style)]
    return [StyledLine(left + " " * gap + right, style)]


def pad(text: str, width: int) -> str:
    """`text` followed by spaces up to `width` columns."""
    return text + " " * (width - cells(text))


def wrap_command(label: str, command: str, why: str, column: int, width: int) -> list[StyledLine]:
    """A command that can be copied in one piece, with its reason beside it where both fit."""
    line = f"{label:<5} {pad(command, max(column, cells(command) + 3))}"
    return (
        [StyledLine(f"{line}{why}")]
        if cells(line) + cells(why) <= width
        else wrap(command, width, first=f"{label:<5} ")
    )


def to_text(lines: Iterable[StyledLine], colour: bool, width: int) -> str:
    """The lines as text that ends in a newline."""
    return "".join(_with_style(line, colour, width) + "\n" for line in lines)


def _with_style(line: StyledLine, colour: bool, width: int) -> str:
    text = plain(line.text).rstrip()
    text = text if line.whole else shorten(text, width)
    return click.style(text, **_STYLES[line.style]) if colour and line.style else text  # type: ignore[arg-type]
