"""A note as Markdown: a picture is its table, whatever a file or a script named is text."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.outlet import plain
from autotune.report.markdown.markup import code, escape_start, escape_within, fenced, folded
from autotune.report.note.blocks import (
    Block,
    Bullets,
    Code,
    Figure,
    Folded,
    Item,
    Listing,
    Note,
    Paragraph,
    Section,
    Table,
    Text,
)


def write(note: Note) -> str:
    """The whole note."""
    blocks = [f"# {escape_within(note.title)}", *map(_block, (*note.about, *note.blocks))]
    return plain("\n\n".join(blocks) + "\n")


def _block(block: Block) -> str:
    match block:
        case Paragraph():
            text = f"**{_inline(block.text)}**" if block.is_verdict else _inline(block.text)
            return f"**{escape_within(block.head)}:** {text}" if block.head else escape_start(text)
        case Table():
            return "\n".join(_rows(block))
        case Bullets():
            return "\n".join(f"- {'[ ] ' if block.is_checklist else ''}{_item(item)}" for item in block.items)
        case Listing():
            return fenced(block.text, block.language)
        case Figure():
            return _block(block.table)
        case Section():
            return "\n\n".join([f"{'#' * block.level} {escape_within(block.title)}", *map(_block, block.blocks)])
        case Folded():
            return folded(escape_within(block.summary), map(_block, block.blocks))


def _rows(table: Table) -> Iterator[str]:
    marks = ["---:" if index in table.right else "---" for index in range(len(table.columns))]
    yield f"| {' | '.join(map(escape_within, table.columns))} |"
    yield f"| {' | '.join(marks)} |"
    for row in table.rows:
        yield f"| {' | '.join(map(_inline, row))} |"


def _item(item: Item) -> str:
    return f"**{escape_within(item.head)}** {_inline(item.text)}" if item.head else escape_start(_inline(item.text))


def _inline(text: Text) -> str:
    parts = text if isinstance(text, tuple) else (text,)
    return "".join(code(part.text) if isinstance(part, Code) else _words(part) for part in parts)


def _words(text: str) -> str:
    """Blanks at the ends, which separate it from what is beside it, stay."""
    inner = escape_within(text)
    if not inner:
        return " " if text else ""
    return f"{' ' if text[0] == ' ' else ''}{inner}{' ' if text[-1] == ' ' else ''}"
