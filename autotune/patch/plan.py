"""Which edits realise a change: where a person would make it, in the words of the file.

A setting with a trusted place is edited there: the value that stands there, or the argument or key that is missing
there. Everything else is a person's to do, and the plan says what and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autotune import catalogue
from autotune.catalogue.dialects import Version, dialects
from autotune.errors import UsageError
from autotune.model.evidence import Location, Setting, Span, Value
from autotune.model.finding import Change
from autotune.model.patch import Edit, PatchChange
from autotune.model.scanned import TYPED, Bundle, Call, Given
from autotune.patch import spell
from autotune.patch.journal import sha256

Read = Callable[[str], bytes]

CONFIGS = (".yaml", ".yml", ".json", ".toml")

TOGETHER = (("loader.batch_size", "train.accumulation_steps"), ("train.precision", "train.matmul_precision"))
"""Settings that only change together: one that cannot be edited keeps the other as it is."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A change that is to be planned: of `setting` (as observed), because of `rules`, with the report's `gain`."""

    change: Change
    subject: str
    setting: Setting | None
    rules: tuple[str, ...]
    gain: str = ""


def plan(
    wanted: Iterable[Wanted], bundle: Bundle | None, read: Read, versions: Mapping[str, Version]
) -> tuple[PatchChange, ...]:
    """One PatchChange for each change, in their order; `read` gives the bytes of a file that the bundle names."""
    planned = [_planned(each, bundle, read, versions) for each in wanted]
    return tuple(_together(planned))


def _planned(wanted: Wanted, bundle: Bundle | None, read: Read, versions: Mapping[str, Version]) -> PatchChange:
    change = wanted.change
    result = PatchChange(
        change.setting, wanted.subject, change.old, change.new, wanted.rules, change.effect, wanted.gain
    )
    setting = wanted.setting
    if bundle is None or setting is None or not setting.trusted or setting.location is None:
        return replace(result, by_hand=_by_hand(change, setting))
    try:
        edits = tuple(_edits(change, setting.location, bundle, read, versions))
    except UsageError as error:
        return replace(result, by_hand=f"{_line(change)}: {error.what}")
    return replace(result, edits=edits)


def _edits(
    change: Change, place: Location, bundle: Bundle, read: Read, versions: Mapping[str, Version]
) -> Iterable[Edit]:
    """The edits of one change. Raises UsageError, which says why, when one of them cannot be made."""
    parts = _parts(bundle.calls, place)
    for key, value in _arguments(change, place, parts[0], versions).items():
        given = next((part.arguments[key] for part in parts if key in part.arguments), None)
        if given is None or given.value != value or type(given.value) is not type(value):
            yield _edit(key, value, given, parts, read)


def _parts(calls: Sequence[Call], place: Location) -> list[Call]:
    """The calls that reach the consumer of `place`: the one that has it first, then the others of its dialect."""
    holder = next((call for call in calls if _holds(call, place)), None)
    if holder is None:
        raise UsageError("no call that was read has this value")
    same = [call for call in calls if (call.dialect, call.subject) == (holder.dialect, holder.subject)]
    return [holder, *(call for call in same if call is not holder and not call.name)]


def _holds(call: Call, place: Location) -> bool:
    return call.location == place or any(given.location == place for given in call.arguments.values())


def _arguments(change: Change, place: Location, call: Call, versions: Mapping[str, Version]) -> Mapping[str, Value]:
    """What to write, by key: as the dialect says; under the name that stands there where that is another one."""
    framework = dialects()[call.dialect]["frameworks"][0]
    spelling = catalogue.spelling(framework, change.setting, versions)
    if spelling is None:
        raise UsageError(catalogue.why_missing(framework, change.setting) or f"{framework} has no such key")
    arguments = spelling.arguments(change.new)
    written = next((key for key, given in call.arguments.items() if given.location == place), None)
    if written is not None and list(arguments) == [spelling.key] and arguments[spelling.key] == change.new:
        return {written: change.new}
    return arguments


def _edit(key: str, value: Value, given: Given | None, parts: Sequence[Call], read: Read) -> Edit:
    at = given.location if given is not None else _target(parts)
    if at.file == TYPED:
        return _typed(key, value, given)
    data = read(at.file)
    splice = spell.replaced(data, at, value) if given is not None else spell.inserted(data, at, key, value)
    old = data[splice.span.start : splice.span.end].decode()
    return Edit(at.file, sha256(data), f"{at.call}.{key}" if at.call else key, splice.span, old, splice.text)


def _typed(key: str, value: Value, given: Given | None) -> Edit:
    """An edit of the command line, which is in no file: its key is the flag, and nothing is spliced."""
    flag = given.location.key.partition("=")[0] if given is not None else f"--{key}"
    return Edit(TYPED, "", flag, Span(0, 0), "" if given is None else str(given.value), str(value))


def _target(parts: Sequence[Call]) -> Location:
    """Where a missing key belongs: a config before a call in a script before a command before a typed one."""
    return min((part.location for part in parts), key=lambda at: (at.file == TYPED, not at.file.endswith(CONFIGS)))


def _together(planned: Sequence[PatchChange]) -> Iterable[PatchChange]:
    """Changes that only hold together are all edited or all left to a person."""
    for each in planned:
        partners = [names for names in TOGETHER if each.setting in names]
        missing = next(
            (other for other in planned for names in partners if other.setting in names and other.by_hand), None
        )
        if missing is not None and each.edits:
            reason = f"only together with {missing.setting}, which has to be changed by hand"
            yield replace(each, edits=(), by_hand=f"{each.setting} = {each.new}: {reason}")
        else:
            yield each


def _by_hand(change: Change, setting: Setting | None) -> str:
    reason = setting.why_not if setting is not None else ""
    return f"{_line(change)}: {reason or 'where it is set was not found'}"


def _line(change: Change) -> str:
    """What to write, as exactly as it is known."""
    place = f" at {change.location.file}:{change.location.line}" if change.location is not None else ""
    written = change.spelling if "=" in change.spelling else f"{change.spelling or change.setting} = {change.new}"
    return f"{written}{place}"
