"""Config files of a training: recognised by their keys, never by their name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from autotune.catalogue.dialects import dialects, extends
from autotune.model.evidence import RUN, Location, Value
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.model.source import DataValue, Document, Scalar

REFERENCE = re.compile(r"\$\{(\.*)([A-Za-z_][\w.]*)\}")
"""An interpolation of OmegaConf and its like: "${model.width}", or "${.width}" from the level of its own key."""

HYPERPYYAML = re.compile(r"<([A-Za-z_]\w*)((?:\[\w+\])*)>")
"""A reference of HyperPyYAML: !ref <lr>, !ref <opts[batch_size]>. What is worked out of several stays text."""

_WORDS = re.compile(rb"[A-Za-z_]\w*")

WORKERS = "num_workers"

_BESIDE_WORKERS = ("_target_", "batch_size", "train_batch_size", "train_bs")

_EVALUATES = re.compile(r"(?:^|[._])(?:val|valid|validation|eval|evaluation|test|predict|infer|inference)(?:$|[._\d])")
"""In the path of a loader that trains nothing."""

MAX_REFERENCES = 10
"""Interpolations that are followed one after another."""


class _Keys(Struct, frozen=True):
    """The values of a file by dotted key, and every key that holds some: "a.b" and "a" for "a.b"."""

    values: Mapping[str, object]
    holders: frozenset[str]

    def have(self, pattern: str) -> bool:
        """Whether a key matches "key", or a key and its value match "key=value"."""
        key, has_value, value = pattern.partition("=")
        if has_value:
            return any(fnmatchcase(str(self.values[one]), value) for one in self._matching(key, self.values))
        return any(True for _ in self._matching(key, self.holders))

    def _matching(self, pattern: str, keys: Iterable[str]) -> Iterable[str]:
        if "*" in pattern:
            return (key for key in keys if fnmatchcase(key, pattern))
        return (pattern,) if pattern in keys else ()


def read_config(
    document: Document, file: str, syntax: str, flags: Mapping[str, WrittenValue] | None = None
) -> ConsumerCall | None:
    """The file as one ConsumerCall with dotted keys; None when it is no config of a training, or of an uncertain one.

    `flags` replace keys at its top before others refer to them. A file that Hydra puts together with others
    (`defaults`, `_target_` at the top) leaves open what they add.
    """
    dialect = recognise({entry.key: entry.value for entry in document.entries}, syntax)
    if dialect is None:
        return None
    written = as_written(document, file)
    arguments = resolve_reference(written | {key: one for key, one in (flags or {}).items() if key in written})
    if dialects()[dialect].get("flat"):
        arguments = {name: replace(one, key=name) for key, one in arguments.items() if (name := _flat(key))}
    if dialects()[dialect].get("targets"):
        arguments |= {key: one for key, one in _of_loader(arguments).items() if key not in arguments}
    is_part = any(entry.path[0] in ("defaults", "_target_") for entry in document.entries if entry.path)
    is_open = is_part or bool(dialects()[dialect].get("open"))
    return ConsumerCall(dialect, "", RUN, arguments, Location(file, 1), is_open=is_open)


def _of_loader(arguments: Mapping[str, WrittenValue]) -> Mapping[str, WrittenValue]:
    """The arguments of the one loader to train with, as if they stood at the top: those of what `_target_` makes, or
    workers beside a batch size."""
    holders = [key.removesuffix(f".{WORKERS}") for key in arguments if key.endswith(f".{WORKERS}")]
    made = [one for one in holders if any(f"{one}.{key}" in arguments for key in _BESIDE_WORKERS)]
    training = [one for one in made if not _EVALUATES.search(one)]
    if len(training) != 1:
        return {}
    start = f"{training[0]}."
    below = {key.removeprefix(start): one for key, one in arguments.items() if key.startswith(start)}
    return {key: replace(one, key=key) for key, one in below.items() if "." not in key}


def recognise(values: Mapping[str, object], syntax: str) -> str | None:
    """The dialect of a file or a command line with these dotted keys; of two, the one that extends the other."""
    keys = _keys(values)
    # Tables of any name are for config files; a command line has none.
    flat = _keys({name: value for key, value in values.items() if (name := _flat(key))}) if syntax != "shell" else keys
    found = [
        name
        for name, tables in _tables(syntax).items()
        if any(_is_of(flat if dialects()[name].get("flat") else keys, table) for table in tables)
    ]
    found = [name for name in found if not dialects()[name].get("weak")] or found
    own = [name for name in found if not any(other != name and extends(other, name) for other in found)]
    return own[0] if len(own) == 1 else None


def _is_of(keys: _Keys, table: Mapping[str, Any]) -> bool:
    return _has_keys(keys.have, table) and not any(map(keys.have, table.get("none", ())))


def _keys(values: Mapping[str, object]) -> _Keys:
    return _Keys(values, frozenset(holder for key in values for holder in _holders(key)))


def _flat(key: str) -> str:
    """A key without the table that it stands in; "" for one that stands deeper."""
    table, _, name = key.rpartition(".")
    return name if "." not in table else ""


def may_be_config(data: bytes, syntax: str) -> bool:
    """Whether these bytes hold the words of the keys by which some dialect is recognised; no parser runs."""
    words = frozenset(_WORDS.findall(data))
    return any(
        _has_keys(lambda pattern: _words(pattern) <= words, table)
        for tables in _tables(syntax).values()
        for table in tables
    )


@cache
def _words(pattern: str) -> frozenset[bytes]:
    """The words of a key: in a file they stand on one line, with dots, or on one of their own each."""
    names = pattern.partition("=")[0].split(".")
    return frozenset(name.encode() for name in names if name.isidentifier())


def matching_arguments(call: ConsumerCall, pattern: str) -> list[WrittenValue]:
    """The known arguments that match "key" or "key=value"; those below a key match it too."""
    key, has_value, value = pattern.partition("=")
    return [
        given
        for name, given in call.arguments.items()
        if given.known
        and given.value is not None
        and (fnmatchcase(name, key) or (not has_value and name.startswith(f"{key}.")))
        and (not has_value or fnmatchcase(str(given.value), value))
    ]


def _holders(key: str) -> Iterable[str]:
    parts = key.split(".")
    return (".".join(parts[: end + 1]) for end in range(len(parts)))


def _tables(syntax: str) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The `[[recognise]]` tables of each dialect that is written in this syntax."""
    return {
        name: dialect.get("recognise", ())
        for name, dialect in dialects().items()
        if syntax in dialect.get("syntaxes", ())
    }


def _has_keys(have: Callable[[str], bool], table: Mapping[str, Any]) -> bool:
    """Whether the keys are there that a `[[recognise]]` table asks for."""
    return (
        all(map(have, table.get("all", ())))
        and all(any(map(have, group)) for group in table.get("some", ()))
        and ("two" not in table or sum(map(have, table["two"])) >= 2)
    )


def written_values(document: Document, file: str) -> dict[str, WrittenValue]:
    """Every value of a data file by its dotted key, with its interpolations followed."""
    return resolve_reference(as_written(document, file))


def as_written(document: Document, file: str) -> dict[str, WrittenValue]:
    """Every value of a data file by its dotted key, an interpolation as the text that it is."""
    return {entry.key: _value_of_entry(entry, file) for entry in document.entries}


def resolve_reference(written: Mapping[str, WrittenValue]) -> dict[str, WrittenValue]:
    """Each value of a config, an interpolation followed to the one where a person would edit it; unknown when that
    fails."""
    return {key: _target(key, written) for key in written}


def plain_value(given: WrittenValue) -> WrittenValue:
    """A value of code as a config has it: a list is not followed."""
    is_list = isinstance(given.value, list | tuple)
    return replace(given, value=None, known=False) if is_list else given


def _value_of_entry(entry: DataValue, file: str) -> WrittenValue:
    location = Location(file, entry.line, column=entry.column, key=entry.key, span=entry.span)
    return WrittenValue(entry.key, _value(entry.value), location, known=not isinstance(entry.value, tuple))


def _target(key: str, written: Mapping[str, WrittenValue]) -> WrittenValue:
    """The value at `key`, with interpolations resolved; unknown if an interpolation has no known target."""
    first = given = written[key]
    at = key
    for _ in range(MAX_REFERENCES):
        if not isinstance(given.value, str) or not _refers(given.value):
            return replace(given, key=first.key)
        at = _named(given.value, at)
        if at not in written:
            break
        given = written[at]
    return replace(first, value=None, known=False)


def _refers(text: str) -> bool:
    """Whether a text stands for something else: an interpolation, a !ref, what is still to be given."""
    return "${" in text or text == "???" or HYPERPYYAML.fullmatch(text) is not None


def _named(text: str, at: str) -> str:
    """The key that the text at the key `at` refers to; "" for one that is worked out."""
    if (found := HYPERPYYAML.fullmatch(text)) is not None:
        return f"{found[1]}{found[2].replace('[', '.').replace(']', '')}"
    found = REFERENCE.fullmatch(text)
    level = at.split(".")[: -len(found[1])] if found is not None and found[1] else []
    return ".".join([*level, found[2]]) if found is not None else ""


def _value(value: Scalar | tuple[()]) -> Value | None:
    return None if isinstance(value, tuple) else value
