"""Written values as the types of settings: a consumer that wants a number takes "3e-4" for one."""

from __future__ import annotations

from autotune.model.evidence import Value

WORDS = dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True)
WORDS |= dict.fromkeys(("false", "f", "no", "n", "off", "0"), False)
"""Truth values in text, in lower case, as click takes them; transformers takes all but on and off."""

LARGEST = float(1 << 62)
"""No setting is larger."""


def typed(value: Value | None, kind: str) -> Value | None:
    """`value` as a setting of this kind (bool, int, float or text); None when it cannot be one."""
    if value is None or isinstance(value, tuple):
        return None
    if kind == "bool":
        return WORDS.get(str(value).lower())
    if kind == "text":
        return ("yes" if value else "no") if isinstance(value, bool) else str(value)
    number = None if isinstance(value, bool) else _number(value)
    if number is None or kind == "float":
        return number
    return int(number) if number.is_integer() else None


def literal(text: str) -> Value:
    """A word of a command line as what it looks like: a truth value, an integer, another number or text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def same(value: Value | None, wanted: Value) -> bool:
    """Whether a written value is this value of a dialect file, whatever its case and however it is typed."""
    if isinstance(wanted, bool):
        return typed(value, "bool") is wanted
    if isinstance(wanted, int | float):
        return typed(value, "float") == wanted
    return str(typed(value, "text")).lower() == str(wanted).lower()


def _number(value: int | float | str) -> float | None:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < LARGEST else None
