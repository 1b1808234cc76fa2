"""Reads TOML: tomllib says what the values are, an own scan where they stand; both must agree on every value.

Dates and times are their text. A [table] without keys is no value.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.model.source import Document
from autotune.syntax.text import Leaf, Text, decode, document
from autotune.syntax.toml_scan import Scan

_UNSUPPORTED = "an unsupported form of TOML"
_PLACE = re.compile(r"\(at (?:line (\d+), column (\d+)|end of document)\)$")


def read(data: bytes, where: str) -> Document:
    """The values of a TOML file. Raises UsageError."""
    text = decode(data, where)
    scan = Scan(text)
    scan.document()
    table = _loads(text.text, text)
    leaves = tuple(_typed(scan.leaves, table, text))
    if sum(leaf.value != () for leaf in leaves) != _num_scalars(table):
        raise text.error(_UNSUPPORTED, 0)
    return document(text, leaves, scan.comments)


def _typed(leaves: Sequence[Leaf], table: dict[str, Any], text: Text) -> Iterator[Leaf]:
    """The leaves with their values. Raises UsageError where what is written at a leaf is not what tomllib has there."""
    written = [text.text[leaf.start : leaf.end] for leaf in leaves]
    alone = _loads("values = [" + "\n,".join(written) + "\n]", text)["values"]
    for leaf, value, words in zip(leaves, alone, written, strict=True):
        found = _at(table, leaf)
        if type(found) is not type(value) or (found != value and value == value):
            raise text.error(_UNSUPPORTED, leaf.start)
        is_scalar = isinstance(value, bool | int | float | str)
        yield replace(leaf, value=value if is_scalar else () if isinstance(value, dict | list) else words)


def _at(table: dict[str, Any], leaf: Leaf) -> Any:
    found: Any = table
    for part in leaf.path:
        try:
            found = found[part]
        except (LookupError, TypeError):
            return None
    return found


def _num_scalars(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 1
    return sum(map(_num_scalars, value.values() if isinstance(value, dict) else value))


def _loads(toml: str, text: Text) -> dict[str, Any]:
    try:
        return tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line, column = (place[1], place[2]) if place and place[1] else (len(text.lines), 1)
        raise UsageError(str(error).split(" (at ")[0], where=f"{text.where}:{line}:{column}") from None
    except (ValueError, RecursionError) as error:  # a number of more digits than Python converts
        raise text.error(str(error), 0) from None
