"""The type of a YAML scalar, as the consumer of the file reads it.

"1.1" is what PyYAML makes of plain text (resolver.py and constructor.py of PyYAML 6.0), "1.2" what ruamel.yaml makes
of it (resolver.py and constructor.py of ruamel.yaml 0.19). Dates and binary data stay text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from autotune.model.source import Scalar

_STANDARD_TAG = "tag:yaml.org,2002:"
_LONGEST = 1000
"""Characters of a number; PyYAML takes a second for one of a million."""

_BOTH = r"""
    | (?P<null>~|null|Null|NULL|)
    | (?P<special>[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))
    | (?P<binary>[-+]?0b[01_]+)
    | (?P<hexadecimal>[-+]?0x[0-9a-fA-F_]+)
"""
_PLAIN = {
    "1.1": r"""
      (?P<true>yes|Yes|YES|true|True|TRUE|on|On|ON)
    | (?P<false>no|No|NO|false|False|FALSE|off|Off|OFF)
    | (?P<float>[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?)
    | (?P<octal>[-+]?0[0-7_]+)
    | (?P<int>[-+]?(?:0|[1-9][0-9_]*))
    | (?P<sixties_float>[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)
    | (?P<sixties>[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)
    """,
    "1.2": r"""
      (?P<true>true|True|TRUE)
    | (?P<false>false|False|FALSE)
    | (?P<float>[-+]?[0-9][0-9_]*(?:\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?)
    | (?P<octal>[-+]?0o[0-7_]+)
    | (?P<int>[-+]?[0-9][0-9_]*)
    """,
}
_PATTERNS = {version: re.compile(pattern + _BOTH, re.VERBOSE) for version, pattern in _PLAIN.items()}
_READ: dict[str, Callable[[str], Scalar]] = {
    "null": lambda text: None,
    "true": lambda text: True,
    "false": lambda text: False,
    "int": int,
    "octal": lambda text: int(text, 8),
    "binary": lambda text: int(text, 2),
    "hexadecimal": lambda text: int(text, 16),
    "float": float,
    "special": lambda text: float(text.replace(".", "")),
    "sixties": lambda text: int(_sixties(text)),
    "sixties_float": lambda text: _sixties(text),
}


def plain(text: str, version: str) -> Scalar:
    """The value of a scalar without quotes and without a tag."""
    match = _PATTERNS[version].fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or match.lastgroup is None:
        return text
    try:
        return _READ[match.lastgroup](text.replace("_", ""))
    except ValueError:  # "0b_" looks like a number and is none: PyYAML fails on it
        return text


def tagged(text: str, tag: str, version: str) -> Scalar:
    """The value of a scalar with a tag. A tag that is not of the standard is not followed: the value is the text."""
    kind = tag.removeprefix(_STANDARD_TAG)
    value = plain(text, "1.2" if kind == "float" else version)
    if kind == "null":
        return None
    if kind == "float" and isinstance(value, int):
        return float(value)
    return value if type(value) is {"int": int, "bool": bool, "float": float}.get(kind) else text


def _sixties(text: str) -> float:
    """ "1:30" is 90: numbers to the base 60."""
    digits = text.lstrip("+-").split(":")
    value: float = sum(float(digit) * 60**power for power, digit in enumerate(reversed(digits)))
    return -value if text.startswith("-") else value
