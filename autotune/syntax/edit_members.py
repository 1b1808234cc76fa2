"""Adds one member to what stands in brackets, in the style of those that are there.

For objects of JSON, flow mappings of YAML, inline tables of TOML and calls of Python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from autotune.syntax.edit_style import indent, line_break, line_end, starts_line

_SEPARATOR = re.compile(r",[ \t]*")


class BracketGroup(Struct, frozen=True):
    """What stands in brackets: from `start` (behind the opening one) to `end` (before the closing one).

    `members` are the places of the values with their keys; `comment` is what may stand between them, as a pattern.
    `step` is how much deeper than the closing bracket the first member of an empty group stands.
    """

    start: int
    end: int
    members: Sequence[tuple[int, int]]
    comment: str
    step: str = "  "


def own_line(text: str, group: BracketGroup) -> str | None:
    """The indentation of a new member that gets a line of its own; None when it goes on the last one's line."""
    if not group.members:
        return None if text.find("\n", group.start, group.end) < 0 else indent(text, group.end) + unit(text, group)
    behind_first = [start for start, _ in group.members[1:] or group.members]
    return indent(text, behind_first[-1]) if all(starts_line(text, start) for start in behind_first) else None


def unit(text: str, group: BracketGroup) -> str:
    """How much deeper than the closing bracket the members stand."""
    outer = indent(text, group.end)
    inner = indent(text, group.members[-1][0]) if group.members else ""
    return inner[len(outer) :] if inner.startswith(outer) and inner != outer else group.step


def appended(text: str, group: BracketGroup, new: str) -> tuple[int, int, str]:
    """Where to write what so that `new` is the last member: start, end and the text for what is between them."""
    indentation = own_line(text, group)
    if not group.members:
        return _first(text, group, new, indentation)
    end = group.members[-1][1]
    if indentation is None:
        return end, end, f"{_separator(text, group)}{new}"
    return _on_own_line(text, group, f"{line_break(text, end)}{indentation}{new}")


def _first(text: str, group: BracketGroup, new: str, indentation: str | None) -> tuple[int, int, str]:
    inside = text[group.start : group.end]
    if indentation is not None:
        return group.start, group.start, f"{line_break(text, group.end)}{indentation}{new}"
    blank = inside[:1] if inside.isspace() else ""  # a comment stays behind
    return group.start, group.start, f"{blank}{new}"


def _separator(text: str, group: BracketGroup) -> str:
    between = [text[one[1] : other[0]] for one, other in pairwise(group.members)]
    return between[-1] if between and _SEPARATOR.fullmatch(between[-1]) else ", "


def _on_own_line(text: str, group: BracketGroup, line: str) -> tuple[int, int, str]:
    """A comment behind the last member stays on its line; the new one has a comma behind it when the last one has."""
    end = group.members[-1][1]
    blank = re.compile(rf"(?:\s|{group.comment})*", re.DOTALL)
    comma = blank.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
    has_comma = text.startswith(",", comma, group.end)
    behind = comma + 1 if has_comma else end
    stop = line_end(text, behind)
    rest = text[behind:stop]
    is_whole = stop <= group.end and blank.fullmatch(rest) is not None
    if has_comma:
        place = stop if is_whole else behind
        return place, place, f"{line},"
    if is_whole and rest.strip():
        return end, stop, f",{rest}{line}"
    return end, end, f",{line}"
