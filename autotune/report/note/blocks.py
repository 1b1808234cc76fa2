"""The parts of a note: what it says and shows, in no format. All texts are plain; a renderer escapes them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Code(Struct, frozen=True):
    """A command, a path, a setting: text that is shown as it is typed."""

    text: str


Inline = str | Code
Text = str | Code | tuple[Inline, ...]


class Paragraph(Struct, frozen=True):
    """A sentence or two; `head` stands before it, "" for none."""

    text: Text
    head: str = ""
    is_verdict: bool = False


class Table(Struct, frozen=True):
    """Rows below `columns`; the cells of the columns in `right` are numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    right: tuple[int, ...] = ()


class Item(Struct, frozen=True):
    """One point of a list; `head` stands before it, "" for none."""

    text: Text
    head: str = ""


class Bullets(Struct, frozen=True):
    """A list, of boxes to tick where it `is_checklist`."""

    items: tuple[Item, ...]
    is_checklist: bool = False


class Listing(Struct, frozen=True):
    """Lines to copy, or a diff."""

    text: str
    language: Literal["diff", "sh", "text"] = "text"


class Rect(Struct, frozen=True):
    """A bar. Across in percent of the picture's width, down in pixels, in this and all shapes; `kind` is its class in
    the style sheet, `hint` what it stands for."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    hint: str = ""


class Segment(Struct, frozen=True):
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: str


class Dot(Struct, frozen=True):
    """A point of `radius` pixels."""

    x: float
    y: float
    kind: str
    hint: str = ""
    radius: float = 5


class Label(Struct, frozen=True):
    """A text whose baseline begins, is centred or ends at the point."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    kind: str = "label"


Shape = Rect | Segment | Dot | Label


class Key(Struct, frozen=True):
    """An entry of a legend: the class of the style sheet, and what has it."""

    kind: str
    text: str


class Picture(Struct, frozen=True):
    """A drawing `height` pixels high and as wide as the page. `title` and `description` say what it shows to those who
    do not see it; the table that follows has its numbers."""

    title: str
    description: str
    height: int
    shapes: tuple[Shape, ...]
    legend: tuple[Key, ...] = ()


class Figure(Struct, frozen=True):
    """A picture and the table of what it shows; a format without pictures has the table."""

    picture: Picture
    table: Table
    is_folded: bool = False
    """Its table is long: it is shown where it is asked for."""


class Section(Struct, frozen=True):
    """Blocks below a heading; `level` 2 or 3."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2


class Folded(Struct, frozen=True):
    """Blocks that are shown where `summary` is opened."""

    summary: str
    blocks: tuple[Block, ...]


Block = Paragraph | Table | Bullets | Listing | Figure | Section | Folded


class Note(Struct, frozen=True):
    """A document that a person keeps: `about` says when and of what, below the title."""

    title: str
    about: tuple[Paragraph, ...]
    blocks: tuple[Block, ...]
