"""Facts config.* that files state word for word, by the patterns of catalogue/stated.toml."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.catalogue.dialects import extends
from autotune.catalogue.vocabulary import read
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.scanned import ConsumerCall
from autotune.scan.configs import matching_arguments

TOGETHER = " + "


def facts(calls: Sequence[ConsumerCall]) -> Iterator[Fact]:
    """The facts that are stated, each with its places; nothing is said of what is not."""
    for name, by_dialect in read("stated.toml").items():
        places = [
            place
            for call in calls
            for dialect, patterns in by_dialect.items()
            if extends(call.dialect, dialect)
            for pattern in patterns
            for place in _places(call, pattern)
        ]
        if places:
            yield Fact(name, RUN, True, tuple(dict.fromkeys(places)))


def _places(call: ConsumerCall, pattern: str) -> list[Location]:
    """Where the call says all parts of a pattern; nowhere when it lacks one."""
    found = [[given.location for given in matching_arguments(call, part)] for part in pattern.split(TOGETHER)]
    return [place for one in found for place in one] if all(found) else []
