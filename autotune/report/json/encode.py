"""The text of a JSON output: one line, numbers that JSON has, nothing that a CI takes for a command."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

SCHEMA: Final = 1

Json = dict[str, Any]


def dumps(value: Any) -> str:
    """`value` in one line of JSON that ends in a newline; NaN and infinity are null, a version is text."""
    text = json.dumps(_finite(value), ensure_ascii=True, allow_nan=False)
    return _COMMAND.sub(r"\\u0023", text) + "\n"


_COMMAND = re.compile(r"#(?=\[|vso\[)")
"""What a CI takes for a command where it shows the text (outlet.py); JSON reads \\u0023 as #."""


def _finite(value: Any) -> Any:
    """`value` without NaN and infinity (null instead); a tuple of ints is a version: "2.13.0"."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple):
        return ".".join(map(str, value))
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list) else value
