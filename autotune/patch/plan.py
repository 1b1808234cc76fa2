"""Which edits realise a change: where a person would make it, in the words of the file.

A setting with a trusted place is edited there: the value that stands there, or the argument, key or statement that is
missing there. Everything else is a person's to do, and the plan says what and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import catalogue
from autotune.catalogue.dialects import Version, dialects, extends, follows, functions, readings
from autotune.errors import UsageError
from autotune.model.evidence import RUN, Location, Setting, Value
from autotune.model.finding import SettingChange
from autotune.model.patch import Edit, PatchChange
from autotune.model.scanned import TYPED, Bundle, ConsumerCall, WrittenValue
from autotune.patch import collator, help_text, statement, syntax_for, value_readers, worker_options
from autotune.patch.dependencies import dependencies, is_pair
from autotune.patch.journal import sha256
from autotune.patch.key_locations import key_of, key_to_add
from autotune.patch.notebook_text import texts
from autotune.patch.resolve import apply_edits, resolve, to_symbolic

Read = Callable[[str], bytes]

LENGTHS = ("max_length", "max_seq_length")
"""How trl's configs name the tokens of a row."""

SWITCHES = ("pad_to_max_length",)
"""Options of scripts that are there to change a setting, with all that it needs: who else reads them does its part."""

LOOPS = {"checkpoint.interval_steps": "save loop", "evaluation.interval_steps": "evaluation loop"}
"""What a scan calls the condition of a raw loop that decides an interval."""

CONFIGS = (".yaml", ".yml", ".json", ".toml")


class RequestedChange(Struct, frozen=True):
    """A change that is to be planned: of `setting` (as observed), because of `rules`, with the report's `gain`."""

    change: SettingChange
    subject: str
    setting: Setting | None
    rules: tuple[str, ...]
    gain: str = ""


class PlannedChange(Struct, frozen=True):
    """A change with its edits. `calls` are what reaches its consumer, `arguments` what that gets by key instead."""

    change: PatchChange
    calls: tuple[ConsumerCall, ...] = ()
    arguments: Mapping[str, Value | None] = field(default_factory=dict)


def plan(
    wanted: Iterable[RequestedChange], bundle: Bundle | None, read: Read, versions: Mapping[str, Version]
) -> tuple[PlannedChange, ...]:
    """One PlannedChange for each change, in their order; `read` gives the bytes of a file that the bundle names."""
    inner = texts(read)
    planned = _without_conflicts([_plan_guarded(each, bundle, inner, versions) for each in wanted], read)
    planned = [_without_computed_edits(each, planned, bundle) for each in planned]
    changes = [each.change for each in planned]
    return tuple(replace(each, change=_with_needs(each, changes)) for each in planned)


def _without_computed_edits(
    draft: PlannedChange, planned: Sequence[PlannedChange], bundle: Bundle | None
) -> PlannedChange:
    """The draft; nothing has to be written for a change that the framework makes itself with an edited one."""
    names = {follows(name, draft.change.setting) for name in (bundle.dialects if bundle is not None else ())}
    is_made = any(
        one.change.setting in names and one.change.edits and is_pair(one.change, draft.change) for one in planned
    )
    return replace(draft, change=replace(draft.change, edits=(), by_hand="")) if is_made else draft


def _without_conflicts(planned: Sequence[PlannedChange], read: Read) -> list[PlannedChange]:
    """The drafts; one whose edits conflict with those before it becomes manual."""
    edits: dict[str, tuple[Edit, ...]] = {}
    drafts = []
    for draft in planned:
        change = draft.change
        joined = {**edits}
        for edit in change.edits:
            joined[edit.file] = tuple(dict.fromkeys((*joined.get(edit.file, ()), edit)))
        try:
            for name in {edit.file for edit in change.edits} - {TYPED}:
                apply_edits(read(name), joined[name])
        except UsageError as error:
            change = replace(change, edits=(), by_hand=f"{change.setting} = {change.new}: {error.what}")
        else:
            edits = joined
        drafts.append(replace(draft, change=change))
    return drafts


def _plan_guarded(
    wanted: RequestedChange, bundle: Bundle | None, read: Read, versions: Mapping[str, Version]
) -> PlannedChange:
    """What cannot be planned is by hand; so is what a bug of the planning hits, which says so: the report is kept."""
    try:
        return _plan_change(wanted, bundle, read, versions)
    except UsageError as error:
        why = error.what
    except Exception as error:
        why = f"autotune failed to plan it, please report this ({type(error).__name__}: {error})"
    return PlannedChange(replace(_manual_change(wanted), by_hand=f"{_line(wanted.change)}: {why}"))


def _with_needs(planned: PlannedChange, changes: Sequence[PatchChange]) -> PatchChange:
    return replace(planned.change, needs=dependencies(planned.change, changes, planned.calls))


def _plan_change(
    wanted: RequestedChange, bundle: Bundle | None, read: Read, versions: Mapping[str, Version]
) -> PlannedChange:
    change, setting = wanted.change, wanted.setting
    result = _manual_change(wanted)
    place = _place(setting, bundle.calls) if bundle is not None and setting is not None else None
    if bundle is None or place is None:
        followed = _not_followed(setting, bundle.calls, read) if bundle is not None and setting is not None else ""
        return PlannedChange(replace(result, by_hand=_by_hand(change, setting, followed)))
    if setting is not None and place.is_missing:
        call = ConsumerCall("torch", setting.spelling, RUN, {}, place)
        edit = _statement(read(place.file), place.file, call.name, change.new)
        return PlannedChange(replace(result, edits=(edit,)), (call,))
    parts = _consumer_calls(bundle.calls, place)
    framework = dialects()[parts[0].dialect]["frameworks"][0]
    arguments = {
        **_arguments(change, place, parts[0], framework, versions),
        **worker_options.worker_arguments(change, parts, framework, versions),
    }
    _check(change, parts)
    edits = tuple(_edits(_stale_arguments(arguments, parts, versions), parts, bundle.calls, read))
    if edits and parts[0].location.file != TYPED:
        edits += tuple(collator.edits(read(parts[0].location.file), change, parts[0], bundle.calls))
    return PlannedChange(replace(result, edits=edits), parts, arguments)


def _statement(data: bytes, file: str, function: str, value: Value) -> Edit:
    """The edit that adds the call of `function`. Raises UsageError, which says why, where none can be added."""
    edit = Edit(
        file,
        statement.statement_key(function.rpartition(".")[2]),
        "",
        syntax_for.literal(value, file),
        sha256=sha256(data),
    )
    resolve(data, edit)
    return edit


def _manual_change(wanted: RequestedChange) -> PatchChange:
    change = wanted.change
    return PatchChange(
        setting=change.setting,
        subject=wanted.subject,
        old=change.old,
        new=change.new,
        rules=wanted.rules,
        effect=change.effect,
        gain=wanted.gain,
        needs=change.needs,
    )


def _place(setting: Setting, calls: Sequence[ConsumerCall]) -> Location | None:
    """The trusted place; else the call that was observed without the argument, where the files say the same of it."""
    if setting.trusted:
        return setting.location
    kind = catalogue.settings()[setting.name].subject
    named = [call for call in calls if call.name and not call.is_open and call.subject.split("#")[0] == kind]
    found = [call for call in named if _is_at(call.location, setting.location)]
    is_given = setting.origin != "default" or any(setting.spelling in call.arguments for call in found)
    return found[0].location if len(found) == 1 and kind != RUN and not is_given else None


def _is_at(call: Location, seen: Location | None) -> bool:
    return seen is not None and call.file == seen.file and call.line <= seen.line <= max(call.line, call.end_line)


def _consumer_calls(calls: Sequence[ConsumerCall], place: Location) -> tuple[ConsumerCall, ...]:
    """The calls that reach the consumer of `place`: the one that has it first, then the others of its dialect."""
    holder = next((call for call in calls if _holds(call, place)), None)
    if holder is None:
        raise UsageError("no call that was read has this value")
    same = [call for call in calls if (call.dialect, call.subject) == (holder.dialect, holder.subject)]
    return (holder, *(call for call in same if call is not holder and not call.name))


def _holds(call: ConsumerCall, place: Location) -> bool:
    return call.location == place or any(given.location == place for given in call.arguments.values())


def _arguments(
    change: SettingChange, place: Location, call: ConsumerCall, framework: str, versions: Mapping[str, Version]
) -> Mapping[str, Value]:
    """What to write, by key: under the name that stands there where that says the setting, else as the dialect does.

    A switch that only the old value turns on (fp16, where bf16 is wanted) is turned off.
    """
    written = next((key for key, given in call.arguments.items() if given.location == place), "")
    for reading in readings(call.dialect, versions):
        is_taken = written in reading.keys or (written and call.name == reading.keys[0])  # a function takes its value
        is_of_call = not call.name or reading.is_main or reading.call in ("", call.name, "torch.optim")
        if reading.setting == change.setting and is_taken and is_of_call:
            means = reading.means.get(_name(change.new))
            found = reading.values.get(_name(change.new))
            if found is None and (means == change.new or not (reading.means or reading.values or reading.form)):
                found = {written: change.new}
            if found is not None:
                return _switched_off(reading.values, change.old, found)
    spelling = catalogue.spelling(framework, change.setting, versions)
    if spelling is None:
        raise UsageError(catalogue.why_missing(framework, change.setting) or f"{framework} has no such key")
    return _switched_off(spelling.values, change.old, spelling.arguments(change.new))


def _name(value: Value | None) -> str:
    """A canonical value as dialects name it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _switched_off(
    values: Mapping[str, Mapping[str, Value]], old: Value | None, new: Mapping[str, Value]
) -> Mapping[str, Value]:
    before = values.get(_name(old), {})
    return {**new, **{key: False for key, value in before.items() if value is True and key not in new}}


def _check(change: SettingChange, parts: Sequence[ConsumerCall]) -> None:
    """Raises UsageError for what a library refuses only when it trains."""
    lengths = [part.arguments[key] for part in parts for key in LENGTHS if key in part.arguments]
    if change.setting == "data.packing" and change.new and any(one.known and one.value is None for one in lengths):
        raise UsageError("packing needs a max_length, and none is set: set one first")


def _stale_arguments(
    arguments: Mapping[str, Value | None], parts: Sequence[ConsumerCall], versions: Mapping[str, Version]
) -> Mapping[str, Value | None]:
    """The arguments that have another value now: given, or by default where nothing gives them."""
    known = {key: one for reading in readings(parts[0].dialect, versions) for key, one in reading.default.items()}
    now: dict[str, Value | None] = {} if any(part.is_open for part in parts) else dict(known)
    now |= {key: given.value for part in reversed(parts) for key, given in part.arguments.items()}
    return {key: value for key, value in arguments.items() if key not in now or not _is_same(now[key], value)}


def _is_same(one: Value | None, other: Value | None) -> bool:
    return type(one) is type(other) and one == other


def _edits(
    arguments: Mapping[str, Value | None], parts: Sequence[ConsumerCall], calls: Sequence[ConsumerCall], read: Read
) -> Iterator[Edit]:
    """The edits that give these arguments. Raises UsageError, which says why, when one of them cannot be made."""
    for key, value in arguments.items():
        given = next((part.arguments[key] for part in parts if key in part.arguments), None)
        edit = _edit(key, value, given, parts, read)
        if given is not None and key not in SWITCHES:
            value_readers.check(given, parts[0], calls, read)
        yield edit
        if given is not None and given.is_default and edit.file != TYPED:
            yield from help_text.help_edits(read(edit.file), edit)


def _edit(key: str, value: Value | None, given: WrittenValue | None, parts: Sequence[ConsumerCall], read: Read) -> Edit:
    takes_value = extends(parts[0].dialect, "hf_trainer")
    if given is not None and given.text is not None:
        worker_options.remove_flag(given.location.key.partition("=")[0], value)
    if given is not None and given.location.file == TYPED:
        return _command_line_edit(given, value, takes_value)
    if given is not None:
        at, data = given.location, read(given.location.file)
        splice = syntax_for.replaced(data, at, value, takes_value=takes_value)
        return to_symbolic(
            data, Edit(at.file, key_of(at, key), syntax_for.text(data, splice.span), splice.text), splice
        )
    part = _target(parts)
    at, flag = part.location, _flag(part, key)
    if at.file == TYPED:
        return Edit(TYPED, flag, "", str(value))
    data = read(at.file)
    splice = syntax_for.inserted(data, at, key, value, flag=flag)
    added = Edit(at.file, key_to_add(data, at, key, flag), "", syntax_for.literal(value, at.file))
    return to_symbolic(data, added, splice)


def _command_line_edit(given: WrittenValue, value: Value | None, takes_value: bool) -> Edit:
    """An edit of the command line, which is in no file: its key is the flag, and nothing is spliced."""
    flag = given.location.key.partition("=")[0]
    if given.value is True and value is False and not takes_value:  # a flag that stands alone is left out
        return Edit(TYPED, flag, str(given.value), "")
    return Edit(TYPED, flag, str(given.value), str(value))


def _flag(part: ConsumerCall, key: str) -> str:
    """How a command line gets `key`: as an override (key=value) where it has only such, else as --key."""
    keys = [given.location.key for given in part.arguments.values()]
    return key if keys and not any(one.startswith("-") for one in keys) else f"--{key}"


def _target(parts: Sequence[ConsumerCall]) -> ConsumerCall:
    """What gets a missing key: a config before a call in a script before a command before a typed one."""
    return min(
        parts, key=lambda part: (part.location.file == TYPED, not part.location.file.endswith(CONFIGS), not part.name)
    )


def _not_followed(setting: Setting, calls: Sequence[ConsumerCall], read: Read) -> str:
    """What the observed call is given where only a run knows it: worked out (40 // world_size), or on a condition."""
    at_place = [call for call in calls if call.name and _is_at(call.location, setting.location)]
    values = (call.arguments[setting.spelling] for call in at_place if setting.spelling in call.arguments)
    unknown = next((one for one in values if not one.known), None)
    if unknown is None and setting.name in LOOPS and setting.location is None:
        loop = next((call.location for call in calls if call.name == LOOPS[setting.name]), None)
        where = f"at {loop.file}:{loop.line}" if loop is not None else "in no condition `step % N == 0`"
        return f"the loop itself decides it, {where}"
    if unknown is None:
        return ""
    at = unknown.location
    if unknown.doubt or at.span is None or at.file == TYPED:
        return unknown.doubt
    return f"the value is computed there: {syntax_for.on_one_line(syntax_for.text(read(at.file), at.span))}"


def _by_hand(change: SettingChange, setting: Setting | None, reason: str = "") -> str:
    reason = reason or (setting.why_not if setting is not None else "")
    return f"{_line(change)}: {reason or 'the place where it is set was not found'}"


def _line(change: SettingChange) -> str:
    """What to write, as exactly as it is known."""
    at = change.location
    place = "" if at is None else f" on the {TYPED[1:-1]}" if at.file == TYPED else f" at {at.file}:{at.line}"
    written = change.spelling if "=" in change.spelling else f"{change.spelling or change.setting} = {change.new}"
    if change.spelling in functions().values():
        written = f"{change.spelling}({change.new!r})"
    return f"{written}{place}"
