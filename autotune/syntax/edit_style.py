"""How a new value is written where an old one stands, and how a file breaks and indents its lines."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal

from autotune.errors import UsageError
from autotune.model.source import DataValue, Path, Scalar

_GROUPED = re.compile(r"[-+]?\d{1,3}(?:_\d{3})+")
_EXPONENT = re.compile(r"\d(\.\d*)?[eE][-+]?\d+")
_PLAIN_RANGE = (1e-3, 1e6)
"""Between these a float is written without an exponent, even where the old one has one."""


def is_same(one: object, other: object) -> bool:
    """Whether a consumer that reads types would see no difference: 1 is not 1.0, and NaN is NaN."""
    return type(one) is type(other) and repr(one) == repr(other)


def integer(value: int, old: str) -> str:
    """1000, or 1_000 where `old` groups its digits."""
    return f"{value:_}" if _GROUPED.fullmatch(old) else str(value)


def decimal(value: float, old: str) -> str:
    """0.0003, or 3e-4 where `old` has an exponent, or 3.0e-4 where it has a point too. Raises UsageError for inf."""
    if not math.isfinite(value):
        raise UsageError(f"{value} cannot be written here")
    found, short = _EXPONENT.search(old), repr(value)
    low, high = _PLAIN_RANGE
    if "e" not in short and (found is None or value == 0 or low <= abs(value) < high):
        return short
    mantissa, sign, exponent = format(Decimal(short).normalize(), "e").partition("e")
    has_point = found is not None and found[1] is not None and "." not in mantissa
    return f"{mantissa}{'.0' if has_point else ''}{sign}{exponent}"


def example(entries: Sequence[DataValue], parent: Path, value: Scalar) -> str:
    """How the file writes a value of this type: the last one in `parent`, else in the file, else ""."""
    alike = [entry for entry in entries if type(entry.value) is type(value)]
    near = [entry for entry in alike if entry.path[:-1] == parent]
    return (near or alike)[-1].text if alike else ""


def line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def line_end(text: str, place: int) -> int:
    """Where the line of `place` ends: before its line break, or at the end of the text."""
    end = text.find("\n", place)
    if end < 0:
        return len(text)
    return end - 1 if end > place and text[end - 1] == "\r" else end


def indent(text: str, place: int) -> str:
    """The blanks that the line of `place` starts with."""
    start = line_start(text, place)
    line = text[start : line_end(text, start)]
    return line[: len(line) - len(line.lstrip(" \t"))]


def starts_line(text: str, place: int) -> bool:
    """Whether only blanks stand before `place` on its line."""
    return not text[line_start(text, place) : place].strip(" \t\ufeff")


def line_break(text: str, place: int) -> str:
    """The line break before `place`, else the first one of the text, else a line feed."""
    found = text.rfind("\n", 0, place)
    found = text.find("\n") if found < 0 else found
    return "\r\n" if found > 0 and text[found - 1] == "\r" else "\n"
