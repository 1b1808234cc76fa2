"""Where an edit would change an observed value: the static candidate that equals what was observed.

A location is trusted only where the value that the files state equals the one that the run had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from autotune.model.evidence import Location, Setting, Value


def located(observed: Iterable[Setting], static: Sequence[Setting]) -> tuple[Setting, ...]:
    """The observed settings, each with the trusted place of its value, or with the reason why there is none.

    Files of both must be spelled alike (absolute paths).
    """
    return tuple(_located(setting, static) for setting in observed)


def _located(setting: Setting, static: Sequence[Setting]) -> Setting:
    named = [each for each in static if each.name == setting.name and each.value is not None]
    candidates = [each for each in named if _reaches(each, setting)]
    equal = [each for each in candidates if _equal(each.value, setting.value)]
    places = {_place(each): each for each in equal}
    if len(places) == 1:
        found = next(iter(places.values()))
        place = _place(found)
        if found.why_not:
            return replace(setting, location=place or setting.location, why_not=found.why_not)
        if place is None:
            return replace(setting, why_not="no file contains it")
        return replace(setting, location=place, trusted=True, spelling=found.spelling or setting.spelling)
    unset = next((each for each in static if each.name == setting.name and each.value is None), None)
    if unset is not None and (setting.origin == "default" or unset.trusted) and not candidates:
        return _to_be_written(setting, unset)
    return replace(setting, why_not=_why_not(setting, candidates, equal))


def _to_be_written(setting: Setting, unset: Setting) -> Setting:
    """A setting that nobody gave, with the place where a statement would."""
    if unset.location is None:
        return replace(setting, why_not=unset.why_not)
    return replace(setting, location=unset.location, trusted=True, spelling=unset.spelling)


def _reaches(candidate: Setting, setting: Setting) -> bool:
    """Whether the candidate feeds the call that was observed; without a call, or an observed place, nothing speaks
    against it."""
    call, seen = candidate.feeds, setting.location
    if call is None or seen is None:
        return True
    return call.file == seen.file and call.line <= seen.line <= max(call.line, call.end_line)


def _place(candidate: Setting) -> Location | None:
    """Where the value is written; the call that a missing argument would be added to when it is written nowhere."""
    return candidate.location or candidate.feeds


def _equal(one: Value | None, other: Value | None) -> bool:
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    return one == other


def _why_not(setting: Setting, candidates: Sequence[Setting], equal: Sequence[Setting]) -> str:
    if len(equal) > 1:
        return f"more than one place sets it: {_listed(equal)}"
    if candidates:
        return f"{_listed(candidates)} says {candidates[0].value}, but the run had {setting.value}"
    return "no file that was read sets it"


def _listed(settings: Sequence[Setting]) -> str:
    places = [place for each in settings if (place := _place(each)) is not None]
    return ", ".join(f"{place.file}:{place.line}" for place in places) or "the default"
