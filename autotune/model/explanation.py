"""What `explain` and `rules` say of a rule."""

from __future__ import annotations

from msgspec import Struct

from autotune.model.rule import Rule


class Paragraph(Struct, frozen=True):
    """A text that is wrapped; `first` stands before its first line, `rest` before the others."""

    text: str
    first: str = "  "
    rest: str = "  "


class Section(Struct, frozen=True):
    """A part of an explanation. The lines of one `of_code` are expressions."""

    title: str
    paragraphs: tuple[Paragraph, ...]
    of_code: bool = False


class Explanation(Struct, frozen=True):
    """All that the file of a rule says; the sections are those that the rule has."""

    rule: Rule
    sections: tuple[Section, ...]


class ListedRule(Struct, frozen=True):
    """A rule as `rules` lists it."""

    rule: Rule
    decides_without_a_run: bool
