"""What a value is in an expression: bool, text, version, a number, or a number with a unit."""

from __future__ import annotations

from autotune.catalogue import near
from autotune.model.rule import Limit

NUMBER = "number"
UNITS = ("share", "ms", "s", "bytes", "per_s")
"""Units that only compare with their own, or with a number without a unit."""

NUMBERS = (NUMBER, *UNITS)


def plain_kind(kind: str) -> str:
    """The kind of a catalogue type in an expression: counts and plain floats are just numbers."""
    return NUMBER if kind in ("int", "float") else kind


def kind_of_limit(limit: Limit) -> str:
    """The kind of a limit: by its value, and by its unit where that is one of the catalogue's."""
    if isinstance(limit.value, bool):
        return "bool"
    if isinstance(limit.value, tuple):
        return "version"
    if isinstance(limit.value, str):
        return "text"
    return limit.unit if limit.unit in UNITS else NUMBER


def unknown(name: str) -> str:
    """The message for a name that the catalogue does not have."""
    guess = near(name)
    return f"unknown fact `{name}`" + (f"; did you mean `{guess}`?" if guess else ": see catalogue/facts.toml")


def comparable(left: str, right: str) -> bool:
    """Whether two kinds can be compared, added or subtracted."""
    return left == right or (left in NUMBERS and right in NUMBERS and NUMBER in (left, right))


def article(kind: str) -> str:
    """A kind in a sentence: "a share", "a value in ms"."""
    if kind == "bool":
        return "a yes-or-no value"
    return f"a value in {kind}" if kind in ("ms", "s", "bytes", "per_s") else f"a {kind}"
