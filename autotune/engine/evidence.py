"""Facts and settings of all sources become one Evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from autotune.catalogue import facts as known_facts
from autotune.catalogue import settings as known_settings
from autotune.engine.trust import located
from autotune.engine.value_kinds import plain_kind
from autotune.model.evidence import RUN, Evidence, Fact, Location, Setting, Value

SHARED = (RUN, "loader#train")
"""The subjects that are the same in the files and in a run."""

NOT_SEEN = "only the files state it; the run did not show it"


class EvidenceError(ValueError):
    """A fact or setting that cannot be."""


def join(facts: Iterable[Fact], settings: Iterable[Setting]) -> Evidence:
    """Everything that is known, by subject, and where the files show it.

    Raises EvidenceError for a fact or setting that the catalogue does not have, whose value is of another type, or
    that two sources state of one subject: all are mistakes of a supplier.
    """
    by_subject: dict[str, dict[str, Value]] = {}
    places: dict[tuple[str, str], tuple[Location, ...]] = {}
    for fact in facts:
        entry = known_facts().get(fact.name)
        _check(fact.name, entry.type if entry else None, fact.value)
        owned = by_subject.setdefault(fact.subject, {})
        if fact.name in owned:
            raise EvidenceError(f"fact {fact.name} of {fact.subject} is stated twice")
        owned[fact.name] = fact.value
        if fact.places:
            places[fact.subject, fact.name] = fact.places
    return Evidence(by_subject, _by_owner(settings), places)


def observed_over(read: Evidence, observed: Evidence) -> Evidence:
    """What was observed, with the places that the files give to it where they have one, and what only the files say.

    Of loaders and optimizers the files count others than a run does: only the train loader is the same in both.
    """
    facts: dict[str, Mapping[str, Value]] = dict(observed.facts)
    for subject in SHARED:
        facts[subject] = {**read.facts.get(subject, {}), **observed.facts.get(subject, {})}
    settings = {
        key: replace(setting, why_not=NOT_SEEN)
        for key, setting in read.settings.items()
        if key[0] in SHARED and key not in observed.settings and setting.value is not None
    }
    for setting in located(observed.settings.values(), tuple(read.settings.values())):
        settings[setting.subject, setting.name] = setting
    return Evidence(
        {name: known for name, known in facts.items() if known}, settings, {**observed.places, **read.places}
    )


def _by_owner(settings: Iterable[Setting]) -> dict[tuple[str, str], Setting]:
    by_owner: dict[tuple[str, str], Setting] = {}
    for setting in settings:
        entry = known_settings().get(setting.name)
        _check(setting.name, entry.type if entry else None, setting.value)
        if (setting.subject, setting.name) in by_owner:
            raise EvidenceError(f"setting {setting.name} of {setting.subject} is stated twice")
        by_owner[setting.subject, setting.name] = setting
    return by_owner


def _check(name: str, kind: str | None, value: Value | None) -> None:
    if kind is None:
        raise EvidenceError(f"{name} is not in the catalogue")
    if value is not None and not _fits(value, plain_kind(kind)):
        raise EvidenceError(f"{name} is of type {kind}, and cannot be {value!r}")


def _fits(value: Value, kind: str) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "text":
        return isinstance(value, str)
    if kind == "version":
        return isinstance(value, tuple)
    return isinstance(value, int | float) and not isinstance(value, bool)
