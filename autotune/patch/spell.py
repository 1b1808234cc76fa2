"""Values in the words of a file: each syntax writes its own."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any, TypeVar, cast

from autotune.errors import UsageError
from autotune.model.evidence import Location, Value
from autotune.model.source import Command, Document, Entry, Splice, Word

Spanned = TypeVar("Spanned", Entry, Word)

_DATA = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".jsonc": "json", ".toml": "toml"}
_SHELL = (".sh", ".bash", ".sbatch", ".slurm")


def replaced(data: bytes, at: Location, value: Value) -> Splice:
    """`value` instead of what stands at `at`. Raises UsageError when it cannot be written there."""
    assert at.span is not None
    suffix = PurePosixPath(at.file).suffix
    if suffix in _DATA:
        splice = _editor(_DATA[suffix]).replaced(_entry(data, at), value)
    elif suffix in _SHELL:
        splice = _editor("shell").replaced(_word(data, at), value)
    else:
        splice = _editor("python").replaced(data[at.span.start : at.span.end].decode(), at.span, value)
    return cast(Splice, splice)


def inserted(data: bytes, at: Location, key: str, value: Value) -> Splice:
    """The argument, key or flag `key` = `value` where `at` (a call, a config, a command) has none."""
    suffix = PurePosixPath(at.file).suffix
    if suffix in _DATA:
        *parent, name = key.split(".")
        return cast(Splice, _editor(_DATA[suffix]).inserted(data, at.file, tuple(parent), name, value))
    if suffix in _SHELL:
        return cast(Splice, _editor("shell").flag(data, _command(data, at), f"--{key}", value))
    editor = _editor("python")
    source = _reader("python").read(data, at.file)
    call = editor.call_at(source, at.line, at.call)
    if call is None:
        raise UsageError("the call was not found")
    return cast(Splice, editor.keyword(source, call, key, value))


def flag(key: str, value: Value) -> str:
    """A flag as it is typed: --dataloader_num_workers 4."""
    return f"--{key} {value}"


def _editor(name: str) -> Any:
    # A syntax is imported for its first edit: a patch of a script needs no YAML.
    return importlib.import_module(f"autotune.syntax.edit_{name}")


def _entry(data: bytes, at: Location) -> Entry:
    document: Document = _reader(_DATA[PurePosixPath(at.file).suffix]).read(data, at.file)
    return _at(document.entries, at, "value")


def _word(data: bytes, at: Location) -> Word:
    commands = _commands(data, at)
    words = [word for each in commands for word in (*each.words, *(value for _, value in each.variables))]
    return _at(words, at, "word")


def _command(data: bytes, at: Location) -> Command:
    found = next((each for each in _commands(data, at) if each.line == at.line), None)
    if found is None:
        raise UsageError("the command is not where it was read")
    return found


def _commands(data: bytes, at: Location) -> tuple[Command, ...]:
    return cast(tuple[Command, ...], _reader("shell").read(data, at.file).commands)


def _reader(name: str) -> Any:
    return importlib.import_module(f"autotune.syntax.{name}")


def _at(things: Iterable[Spanned], at: Location, what: str) -> Spanned:
    found = next((thing for thing in things if thing.span == at.span), None)
    if found is None:
        raise UsageError(f"the {what} is not where it was read")
    return found
