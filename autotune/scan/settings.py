"""Calls, configs and command lines as canonical settings.

A value that is given anywhere wins over every default. What reaches one consumer is put together first, command line
before config before call before parser default, so that keys that count only together are seen together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from autotune import catalogue
from autotune.catalogue.coercion import same, typed
from autotune.catalogue.dialects import DialectReading, Version, is_own, readings
from autotune.model.evidence import RUN, Location, Setting, Value
from autotune.model.scanned import ConsumerCall
from autotune.scan import framework_defaults
from autotune.scan.configs import matching_arguments

SUBJECTS = {"loader": "loader#train", "optimizer": "optimizer#0", "run": RUN}
"""What the settings of a config or a Trainer belong to."""

AUTO = "auto"
"""Left to the consumer: unknown, but for a device map, where it is a choice of its own."""

POSITIVE = ("interval_steps", "max_steps", "total_limit", "epochs", "batch_size", "global_batch", "accumulation_steps")
"""Settings of which 0 and less say that there is none."""


class ConsumerValues(Struct, frozen=True):
    """What reaches one consumer. `values` are those in force by key: the known ones, and defaults of absent keys.

    Keys that say the same are absent together: a value under one of them replaces the default of another.
    """

    call: ConsumerCall
    readings: tuple[DialectReading, ...]
    values: Mapping[str, Value]


def settings_of(calls: Sequence[ConsumerCall], versions: Mapping[str, Version]) -> tuple[Setting, ...]:
    """The settings that these calls decide: origin static where given, default where the dialect states one.

    A setting that is given, and whose value cannot be known, is left out: no later call and no default speaks for it.
    """
    consumers = [_consumer(call, versions) for call in merge_consumers(calls)]
    given = _first(one for consumer in consumers for one in _given_settings(consumer))
    default = _first(one for consumer in consumers for one in _defaults(consumer))
    return framework_defaults.complete_settings(default | given, calls, versions)


def merge_consumers(calls: Sequence[ConsumerCall]) -> list[ConsumerCall]:
    """One ConsumerCall for each consumer: configs, command lines and main calls of a dialect belong to one."""
    found: dict[tuple[str, str, str], ConsumerCall] = {}
    for position, call in enumerate(calls):
        key = (call.dialect, call.subject, "" if is_own(call.dialect, call.name) else str(position))
        first = found.get(key)
        found[key] = call if first is None else _join_calls(first, call)
    return list(found.values())


def _join_calls(first: ConsumerCall, then: ConsumerCall) -> ConsumerCall:
    arguments = {**then.arguments, **first.arguments}
    return replace(first, arguments=arguments, is_open=first.is_open or then.is_open)


def _consumer(call: ConsumerCall, versions: Mapping[str, Version]) -> ConsumerValues:
    own = tuple(_named_reading(reading, call) for reading in readings(call.dialect, versions) if _reads(reading, call))
    absent = {
        key: value
        for reading in own
        if _has_defaults(reading, call)
        for key, value in reading.default.items()
        if not call.arguments.keys() & (reading.keys if key in reading.keys else (key,))
    }
    known = {key: one.value for key, one in call.arguments.items() if one.known and one.value is not None}
    return ConsumerValues(call, own, absent | known)


def _reads(reading: DialectReading, call: ConsumerCall) -> bool:
    if not call.name:
        return reading.is_config
    if reading.is_main and is_own(call.dialect, call.name):
        return True
    is_optimizer = reading.call == "torch.optim" and call.subject.startswith("optimizer")
    return is_optimizer or call.name == (reading.call or reading.keys[0])


def _has_defaults(reading: DialectReading, call: ConsumerCall) -> bool:
    """Whether absent keys are at their default: nothing is open, and a config is not one of several calls' own."""
    return not call.is_open and (bool(call.name) or reading.is_main or not reading.call)


def _named_reading(reading: DialectReading, call: ConsumerCall) -> DialectReading:
    """The reading of a function that takes the value: its key is that of the first argument."""
    if call.name and call.name == reading.keys[0]:
        return replace(reading, keys=tuple(call.arguments)[:1] or ("",))
    return reading


def _given_settings(consumer: ConsumerValues) -> Iterator[Setting]:
    """What the arguments give; value None where a key is there and cannot be known."""
    for reading in consumer.readings:
        keys = [key for key in _keys(reading) if key in consumer.call.arguments]
        if keys:
            one, is_known = consumer.call.arguments[keys[0]], all(consumer.call.arguments[key].known for key in keys)
            value = _value(reading, consumer) if is_known else None
            yield Setting(
                reading.setting,
                _subject(reading, consumer.call),
                value,
                "static",
                one.location,
                spelling=keys[0],
                feeds=_call(consumer.call),
                why_not=one.doubt,
            )


def _defaults(consumer: ConsumerValues) -> Iterator[Setting]:
    """What the dialect states for keys that the call, which leaves nothing open, does not have."""
    for reading in consumer.readings:
        value = _value(reading, consumer) if reading.default and _has_defaults(reading, consumer.call) else None
        if value is not None:
            subject = _subject(reading, consumer.call)
            at = consumer.call.location
            yield Setting(
                reading.setting, subject, value, "default", at, spelling=reading.keys[0], feeds=_call(consumer.call)
            )


def _value(reading: DialectReading, consumer: ConsumerValues) -> Value | None:
    """The canonical value that the keys in force say, None when they do not say one."""
    values, kind = consumer.values, catalogue.kinds()[reading.setting]
    if not all(same(_other(key, consumer), wanted) for key, wanted in reading.only.items()):
        return None
    if any(matching_arguments(consumer.call, pattern) for pattern in reading.unless):
        return None
    for name, row in reading.values.items():
        if all(key in values and same(values[key], wanted) for key, wanted in row.items()):
            return typed(name, kind)
    value = next((values[key] for key in reading.keys if key in values), None)
    if reading.form:
        value = _number(reading.form, value)
    if reading.means or reading.values:
        return typed(reading.means.get(str(value).lower()), kind)
    value = None if value == AUTO and reading.setting != "model.device_map" else typed(value, kind)
    is_none = reading.setting.endswith(POSITIVE) and isinstance(value, int | float) and value <= 0
    return None if is_none else value


def _number(form: str, written: Value | None) -> Value | None:
    """The integer that is `written` in this form ("{}ba"), None for any other."""
    found = re.fullmatch(re.escape(form).replace(r"\{\}", "([0-9]{1,18})"), str(written))
    return int(found[1]) if found else None


def _other(name: str, consumer: ConsumerValues) -> Value | None:
    """What another setting is for this consumer; the value of a key that is no setting."""
    rows = [reading for reading in consumer.readings if reading.setting == name]
    rows.sort(key=lambda reading: not any(key in consumer.call.arguments for key in reading.keys))
    return _value(rows[0], consumer) if rows else consumer.values.get(name)


def _keys(reading: DialectReading) -> Iterable[str]:
    """Every key that has a say in the setting."""
    return dict.fromkeys([*reading.keys, *(key for row in reading.values.values() for key in row)])


def _subject(reading: DialectReading, call: ConsumerCall) -> str:
    kind = catalogue.settings()[reading.setting].subject
    return call.subject if call.subject.startswith(f"{kind}#") else SUBJECTS[kind]


def _call(call: ConsumerCall) -> Location | None:
    """The place of a call in a script; None for a config or a command line."""
    return call.location if call.name else None


def _first(settings: Iterable[Setting]) -> dict[tuple[str, str], Setting]:
    found: dict[tuple[str, str], Setting] = {}
    for setting in settings:
        found.setdefault((setting.name, setting.subject), setting)
    return found
