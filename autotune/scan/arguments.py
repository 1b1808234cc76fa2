"""Facts arguments.*: what calls, configs and command lines say that a release of their library stopped accepting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from autotune.catalogue.dialects import Version, is_before, is_own, version
from autotune.catalogue.frameworks import frameworks
from autotune.catalogue.vocabulary import read
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.scanned import ConsumerCall
from autotune.scan.ranges import Range
from autotune.scan.script.consumer_calls import SOMETIMES

PASSES_NUM_ITEMS = (4, 46)
"""The release of transformers whose Trainer passes compute_loss the number of items of a step."""


CONFIGS = (".yaml", ".yml", ".json", ".toml")
"""How the names of files end that start nothing."""

PATCHES = {"unsloth": "trl"}
"""Libraries that replace the classes of a package by their own, which take old arguments."""


class Removed(Struct, frozen=True):
    """An argument that `package` stopped accepting with release `since`; `instead` is "" where nothing replaces it."""

    name: str
    package: str
    since: Version
    instead: str
    location: Location

    @property
    def text(self) -> str:
        """Since when, and what replaces it: "evaluation_strategy (removed in 4.51, now eval_strategy)"."""
        now = f", now {self.instead}" if self.instead else ""
        return f"{self.name} (removed in {'.'.join(map(str, self.since))}{now})"


def facts(
    calls: Sequence[ConsumerCall],
    versions: Mapping[str, Version],
    ranges: Mapping[str, Range] | None = None,
    imports: Collection[str] = (),
) -> Iterator[Fact]:
    """Facts `arguments.*` of one library with such arguments, of one whose release is known if there is any.

    A release that still accepts them has none, a range in which all releases do, and a library that one of the
    `imports` patches. Of configs that only a script reads there are none without one: it may have options of its own.
    """
    allowed = ranges or {}
    patched = {package for library, package in PATCHES.items() if library in imports}
    has_reader = not all(call.location.file.endswith(CONFIGS) for call in calls)
    found = [
        one
        for call in calls
        if has_reader or call.dialect not in frameworks() or not frameworks()[call.dialect].parsed
        for one in _removed_arguments(call)
        if one.package not in patched and not _is_accepted(one, versions, allowed)
    ]
    package = next((one.package for one in found if one.package in versions), found[0].package if found else "")
    of_one = [one for one in found if one.package == package]
    if not of_one:
        return
    places = tuple(one.location for one in of_one)
    texts = dict.fromkeys(one.text for one in of_one)
    yield Fact("arguments.removed", RUN, ", ".join(texts), places)
    since = min(one.since for one in of_one)
    yield Fact("arguments.removed_since", RUN, since, places)
    asked = allowed.get(package)
    oldest = versions.get(package, asked.low if asked is not None else None)
    if oldest is not None and not is_before(oldest, since):
        yield Fact("arguments.package_version", RUN, oldest)
    elif asked is not None:
        yield Fact("arguments.declared", RUN, f"depending on the release; the requirement is {asked.text}")
    else:
        yield Fact("arguments.declared", RUN, "the release used here is not declared")


def compute_loss_facts(versions: Mapping[str, Version], ranges: Mapping[str, Range]) -> Iterator[Fact]:
    """Fact `arguments.may_pass_num_items`: whether a release of transformers may be used that calls compute_loss with
    num_items_in_batch."""
    asked = ranges.get("transformers")
    if "transformers" in versions:
        may_pass = not is_before(versions["transformers"], PASSES_NUM_ITEMS)
    else:
        may_pass = asked is None or not asked.is_before(PASSES_NUM_ITEMS)
    yield Fact("arguments.may_pass_num_items", RUN, may_pass)


def _is_accepted(one: Removed, versions: Mapping[str, Version], ranges: Mapping[str, Range]) -> bool:
    """Whether every release that may be used still takes the argument."""
    if one.package in versions:
        return is_before(versions[one.package], one.since)
    asked = ranges.get(one.package)
    return asked is not None and asked.is_before(one.since)


def _removed_arguments(call: ConsumerCall) -> Iterator[Removed]:
    if call.asks_release:
        return
    for library in _libraries():
        if _is_meant(library, call):
            for name, row in library["arguments"].items():
                given = call.arguments.get(name)
                # A call that names it passes it, if only what an option is by default.
                is_given = given is not None and (name in call.keywords or not given.is_default)
                if given is not None and is_given and not given.doubt.endswith(SOMETIMES):
                    since, instead = version(row["removed"]), row.get("instead", "")
                    place = call.keywords.get(name, given.location)  # the name is what a person edits
                    yield Removed(name, library["package"], since, instead, place)


def _is_meant(library: Mapping[str, Any], call: ConsumerCall) -> bool:
    if call.dialect not in library["dialects"]:
        return False
    return call.name in library["names"] if "names" in library else is_own(call.dialect, call.name)


@cache
def _libraries() -> list[Mapping[str, Any]]:
    return list(read("renames.toml")["library"])
