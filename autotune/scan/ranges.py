"""Ranges of releases that a project asks for where it pins none: transformers>=4.32,<4.38."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from autotune.catalogue import frameworks
from autotune.catalogue.dialects import Version, version

_RELEASE = r"\d{1,9}(?:\.\d{1,9})*"
_BOUND = rf"(?:>=|<=|<|>|~=|!=|==)\s*{_RELEASE}(?:\.\*)?"
_LINE = re.compile(rf"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?({_BOUND}(?:\s*,\s*{_BOUND})*)\)?\s*(?:#.*|--.*)?$")
"""A requirement that is nothing but bounds; a marker or a release candidate makes it another one."""

_PART = re.compile(rf"(>=|<=|<|>|~=|!=|==)\s*({_RELEASE})")


class Range(Struct, frozen=True):
    """Releases from `low` on and below `high`, None where nothing bounds them; `text` is how they were asked for."""

    text: str
    low: Version | None
    high: Version | None


def ranges(requirements: Iterable[str]) -> Mapping[str, Range]:
    """What these requirements allow of each package, by its known name."""
    matches = (_LINE.match(line) for line in requirements)
    return widest((known_name(found[1]), _range(found[1], found[2])) for found in matches if found)


def known_name(package: str) -> str:
    """The one name of a package, in lower case with hyphens: PyTorch is torch."""
    known = re.sub(r"[-_.]+", "-", package).lower()
    return frameworks.renamed_distributions().get(known, "torch" if known == "pytorch" else known)


def widest(found: Iterable[tuple[str, Range]]) -> Mapping[str, Range]:
    """One range of each package: of several the one that holds all, for which of them counts is not known."""
    known: dict[str, Range] = {}
    for package, one in found:
        known[package] = _both(known[package], one) if package in known else one
    return known


def _range(package: str, bounds: str) -> Range:
    low: list[Version] = []
    high: list[Version] = []
    for sign, release in _PART.findall(bounds):
        at = version(release)
        if sign in (">=", ">", "~=", "=="):
            low.append(at)
        if sign == "<":
            high.append(at)
        elif sign in ("<=", "=="):
            high.append(_next(at))
        elif sign == "~=":
            high.append(_next(at[:-1]) if len(at) > 1 else _next(at))
    text = re.sub(r"\s+", "", bounds)
    return Range(f"{package}{text}", max(low, default=None), min(high, default=None))


def exactly(package: str, release: Version) -> Range:
    """The range of one release."""
    return Range(f"{package}=={'.'.join(map(str, release))}", release, _next(release))


def _next(release: Version) -> Version:
    """The first release after all that begin like this: 4.38 after 4.37.2."""
    return (*release[:-1], release[-1] + 1)


def _both(one: Range, other: Range) -> Range:
    low = None if one.low is None or other.low is None else min(one.low, other.low)
    high = None if one.high is None or other.high is None else max(one.high, other.high)
    return Range(one.text if one == other else f"{one.text} or {other.text}", low, high)
