"""Ranges of releases that a project asks for where it pins none: transformers>=4.32,<4.38."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from autotune.catalogue import frameworks
from autotune.catalogue.dialects import Version, is_before, version

_RELEASE = r"\d{1,9}(?:\.\d{1,9})*"
_BOUND = rf"(?:>=|<=|<|>|~=|!=|==)\s*{_RELEASE}(?:\.\*)?"
_LINE = re.compile(rf"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?({_BOUND}(?:\s*,\s*{_BOUND})*)\)?\s*(?:#.*|--.*)?$")
"""A requirement that is nothing but bounds; a marker or a release candidate makes it another one."""

_SOURCE = re.compile(
    r"(?:(?:-e|--editable)[ =]\s*)?[\"']?(?:([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*@\s*)?"
    r"git\+[\w+.-]+://(?:[^\s#@/]*@)?[^\s#@/]*/"
    r"([^\s#@]*?)/?([\w.-]+?)(?:\.git)?/?(@[^\s#]+)?(?:#[^\s]*?\begg=([\w.-]+))?(?:[#;&\s\"'\[].*)?$"
)
"""A requirement of a repository: the package where it is named, the owner, the repository, the revision, and the
package as pip's egg= names it."""

_TAG = re.compile(rf"@v?({_RELEASE})")
"""A revision that is the tag of a release."""

HOMES = ("huggingface", "pytorch", "lightning-ai", "microsoft")
"""Owners of repositories whose newest state is as new as any release."""

LONGEST = 500
"""Characters of a line that names a repository."""

_PART = re.compile(rf"(>=|<=|<|>|~=|!=|==)\s*({_RELEASE})")


class Range(Struct, frozen=True):
    """Releases from `low` on and below `high`, None where nothing bounds them; `text` is how they were asked for.

    `is_source` says that a fork or a revision of a repository is installed, whose release is not known.
    """

    text: str
    low: Version | None
    high: Version | None
    is_source: bool = False

    def is_before(self, release: Version) -> bool:
        """Whether no release that may be used is as new as this one, as far as is known."""
        return self.is_source or (self.high is not None and not is_before(release, self.high))


def ranges(requirements: Iterable[str]) -> Mapping[str, Range]:
    """What these requirements allow of each package, by its known name."""
    return widest(filter(None, map(_asked, requirements)))


def _asked(line: str) -> tuple[str, Range] | None:
    if (found := _LINE.match(line)) is not None:
        return known_name(found[1]), _range(found[1], found[2])
    source = _SOURCE.match(line.strip()) if "git+" in line and len(line) <= LONGEST else None
    is_home = source is not None and source[2].lower() in HOMES
    if source is None or (is_home and source[4] is None):
        return None
    name = source[1] or source[5] or source[3]
    tag = _TAG.fullmatch(source[4]) if is_home else None
    if tag is not None:
        return known_name(name), exactly(name, version(tag[1]))
    return known_name(name), Range(f"{name} from a repository", None, None, is_source=True)


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
    text = one.text if one == other else f"{one.text} or {other.text}"
    return Range(text, low, high, one.is_source or other.is_source)
