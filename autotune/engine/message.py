"""Sentences of a rule: `{fact.name}` and `{limits.name}` become values with units, `{name:plain}` the bare value.

What stands in [ ] is left out where a value in it is not known, empty or zero (a plain zero stays: rank 0); of
[this|that|more] those parts stay that have all of theirs, with commas between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from autotune.catalogue import kinds
from autotune.engine.logic import Lookup
from autotune.engine.value_kinds import kind_of_limit, unknown
from autotune.model.evidence import Value
from autotune.model.rule import Limit

_PLACE = re.compile(r"\{([^{}]*)\}")
_OPTIONAL = re.compile(r"\[([^\[\]]*\{[^\[\]]*)\]")
_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB")
UNKNOWN = "unknown"


def render(template: str, lookup: Lookup, limits: Mapping[str, Limit]) -> str:
    """`template` with its values filled in; outside of [ ] a value that is not known reads "unknown"."""

    def known(match: re.Match[str]) -> str:
        return ", ".join(part for part in match[1].split("|") if all(map(is_said, _PLACE.findall(part))))

    def is_said(place: str) -> bool:
        name, _, style = place.partition(":")
        value = True if name.startswith("limits.") else lookup(name)
        return value is not None and value != "" and (style == "plain" or isinstance(value, bool) or value != 0)

    def fill(match: re.Match[str]) -> str:
        name, _, style = match[1].partition(":")
        limit = limits.get(name.removeprefix("limits.")) if name.startswith("limits.") else None
        value = limit.value if limit is not None else lookup(name)
        if value is None:
            return UNKNOWN
        kind = "text" if style == "plain" else _limit_kind(limit) if limit is not None else kinds()[name]
        return format_value(value, kind)

    return _PLACE.sub(fill, _OPTIONAL.sub(known, template))


def required_names(template: str) -> tuple[str, ...]:
    """The names that `template` quotes outside of [ ]: these have to be known."""
    return names(_OPTIONAL.sub("", template))


def names(template: str) -> tuple[str, ...]:
    """The facts, settings and limits that `template` quotes."""
    return tuple(match[1].partition(":")[0] for match in _PLACE.finditer(template))


def mistakes(template: str, limits: Mapping[str, Limit]) -> Iterator[str]:
    """What is wrong with the places of `template`."""
    if _PLACE.sub("", template).count("{") or _PLACE.sub("", template).count("}"):
        yield "a brace without its partner: places are written {fact.name}"
    for match in _PLACE.finditer(template):
        name, colon, style = match[1].partition(":")
        if colon and style != "plain":
            yield f"`:{style}` in {match[0]}: the only style is :plain"
        if name.startswith("limits."):
            if name.removeprefix("limits.") not in limits:
                yield f"unknown limit `{name}`"
        elif name not in kinds():
            yield unknown(name)


def format_value(value: Value, kind: str) -> str:
    """A value as a reader writes it, by its catalogue type: "72 %", "1.24 s", "2.4 GB", "4.41.2", "1,240/s"."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ".".join(map(str, value))
    if isinstance(value, str) or kind in ("text", "bool"):
        return str(value)
    if kind in _SHOW:
        return _SHOW[kind](float(value))
    return f"{value:,}" if isinstance(value, int) else _digits(value)


def _limit_kind(limit: Limit) -> str:
    kind = kind_of_limit(limit)
    return "float" if kind == "number" else kind


def _digits(number: float) -> str:
    """Three significant digits, thousands separated, no exponent between 0.001 and 10^15."""
    if number == 0 or not 1e-3 <= abs(number) < 1e15:
        return f"{number:.3g}"
    text = f"{float(f'{number:.3g}'):,.6f}".rstrip("0").rstrip(".")
    return text if abs(number) < 1000 else f"{number:,.0f}"


def _share(share: float) -> str:
    percent = share * 100
    if abs(percent) >= 9.95 or percent == 0:
        return f"{percent:.0f} %"
    return f"{percent:.2g} %" if abs(percent) >= 0.1 else f"{percent:.1g} %" if abs(percent) >= 1e-3 else "0.001 %"


def _ms(ms: float) -> str:
    return f"{_digits(ms / 1000)} s" if abs(ms) >= 999.5 else f"{_digits(ms)} ms"


def _bytes(number: float) -> str:
    power = 0
    while abs(number) >= 1023.5 and power < len(_SIZES) - 1:
        number, power = number / 1024, power + 1
    return f"{number:.1f} {_SIZES[power]}" if power and abs(number) < 9.95 else f"{number:,.0f} {_SIZES[power]}"


def _seconds(seconds: float) -> str:
    return f"{_digits(seconds * 1000)} ms" if 0 < abs(seconds) < 0.9995 else f"{_digits(seconds)} s"


def _per_s(rate: float) -> str:
    return f"{_digits(rate)}/s"


_SHOW = {"share": _share, "ms": _ms, "s": _seconds, "bytes": _bytes, "per_s": _per_s}
