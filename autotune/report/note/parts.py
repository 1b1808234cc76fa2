"""What several notes say in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from autotune import __version__
from autotune.report.next_commands import NextCommand
from autotune.report.note.blocks import Bullets, Code, Item, Paragraph, Section, Table, Text
from autotune.report.text.layout import StyledLine

WIDE = 1_000_000
"""Columns of a line that is never broken: a renderer of the text report then gives whole sentences."""

LONGEST_HEAD = 24
"""Characters; what is longer before a colon is a sentence."""

_RUN = re.compile(r"(\d{4})(\d\d)(\d\d)-\d{6}")


def day(name: str) -> str:
    """The day of a run by its id, "2026-11-26"; "" where that holds none."""
    found = _RUN.match(name)
    return "-".join(found.groups()) if found else ""


def about(date: str, *more: tuple[str, Text]) -> tuple[Paragraph, ...]:
    """When, with which autotune, and what else is known; what is unknown is left out."""
    rows = (("Date", f"{date} (UTC)" if date else ""), *more, ("Measured by", f"autotune {__version__}"))
    return tuple(Paragraph(text, head) for head, text in rows if text)


def paragraphs(lines: Iterable[StyledLine]) -> tuple[Paragraph, ...]:
    """Lines of the text report that are WIDE, each a paragraph; what stands before its first colon is its head."""
    made = []
    for line in lines:
        text = line.text.strip()
        head, colon, rest = text.partition(": ")
        made.append(Paragraph(rest, head) if colon and len(head) <= LONGEST_HEAD else Paragraph(text))
    return tuple(made)


def sentences(lines: Iterable[StyledLine]) -> str:
    """Lines of the text report as one text."""
    return " ".join(line.text.strip() for line in lines)


def next_steps(commands: Iterable[NextCommand]) -> tuple[Section, ...]:
    """A section with a command and its reason a row; nothing without a command."""
    rows = tuple((Code(one.command), one.why) for one in commands)
    return (Section("Next", (Table(("command", "what it does"), rows),)),) if rows else ()


def listed(texts: Sequence[str]) -> Bullets:
    """A list of texts."""
    return Bullets(tuple(map(Item, texts)))
