"""Values in the words of a file: each syntax writes its own."""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any, TypeVar, cast

from autotune.errors import UsageError
from autotune.model.evidence import Location, Span, Value
from autotune.model.source import SCRIPTS, DataValue, Document, Scalar, ShellCommand, ShellWord, Splice
from autotune.syntax import edit_effect, shell_effect
from autotune.syntax.python import Source

Spanned = TypeVar("Spanned", DataValue, ShellWord)

_SYNTAXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".jsonc": "json", ".toml": "toml"}
_SYNTAXES |= dict.fromkeys(SCRIPTS, "python")
_DATA = ("yaml", "json", "toml")
_CONSTANT = (ast.Constant, ast.UnaryOp, ast.BinOp)
_LONGEST = 60


def replaced(data: bytes, at: Location, value: Value | None, *, takes_value: bool = False) -> Splice:
    """`value` instead of what stands at `at`. Raises UsageError when it cannot be written there.

    `takes_value` says that a flag that stands alone in a command may get a value (--bf16 False).
    """
    assert at.span is not None
    syntax = _syntax(at.file)
    if syntax in _DATA:
        entry = _entry(data, at)
        splice = _editor(syntax).replaced(entry, value)
        edit_effect.confirm(
            data, splice, lambda after: cast(Document, read(after, at.file)), entry.path, cast(Scalar, value)
        )
    elif syntax == "shell":
        word = _word(data, at)
        splice = _editor("shell").replaced(word, value, takes_value=takes_value)
        shell_effect.confirm(data, splice, word)
    else:
        splice = _editor("python").replaced(_literal(data, at, at.span), at.span, value)
    return cast(Splice, splice)


def inserted(data: bytes, at: Location, key: str, value: Value | None, *, flag: str) -> Splice:
    """The argument or key `key`, or the `flag`, with `value` where `at` (a call, a config, a command) has none."""
    syntax = _syntax(at.file)
    if syntax in _DATA:
        *parent, name = key.split(".")
        return cast(Splice, _editor(syntax).inserted(data, at.file, tuple(parent), name, value))
    if syntax == "shell":
        return cast(Splice, _editor("shell").flag(data, _command(data, at), flag, value))
    editor = _editor("python")
    source = _reader("python").read(data, at.file)
    call = editor.call_at(source, at.line, at.call)
    if call is None:
        raise UsageError("the call was not found")
    return cast(Splice, editor.keyword(source, call, key, value))


def argument(source: Source, call: ast.Call, key: str, value: Value | None) -> Splice:
    """The keyword `key` with `value` for a call that lacks it; a dotted key is one of a dict of the call."""
    return cast(Splice, _editor("python").keyword(source, call, key, value))


def literal(value: Value | None, name: str) -> str:
    """A value in the words of the file `name`, as an edit holds it; `value` reads it."""
    syntax = _syntax(name)
    return repr(value) if syntax == "python" else str(value) if syntax == "shell" else json.dumps(value)


def value(written: str, name: str) -> Scalar:
    """What a literal means to the consumer of the file `name`. Raises UsageError where it is not a plain value."""
    syntax = _syntax(name)
    if syntax in _DATA:
        pattern = {"json": '{"v": %s}', "toml": "v = %s", "yaml": "v: %s"}[syntax]
        entries = read((pattern % written).encode(), name).entries
        if [entry.path for entry in entries] != [("v",)] or isinstance(entries[0].value, tuple):
            raise UsageError(f"{on_one_line(written)} is no plain value")
        return cast(Scalar, entries[0].value)
    try:
        return cast(Scalar, ast.literal_eval(written))
    except (ValueError, SyntaxError):
        if syntax == "shell":
            return written
        raise UsageError(f"{on_one_line(written)} is not a plain value") from None


def read(data: bytes, name: str) -> Any:
    """The file in the words of its syntax: a Document, a python.Source or a shell.Script. Raises UsageError."""
    return _reader(_syntax(name)).read(data, name)


def text(data: bytes, span: Span) -> str:
    """What stands at `span`. Raises UsageError where that is no UTF-8, which a patch file is written in."""
    try:
        return data[span.start : span.end].decode()
    except UnicodeDecodeError:
        raise UsageError("the value there is not UTF-8: edit it by hand") from None


def _literal(data: bytes, at: Location, span: Span) -> str:
    """What stands in a script at `span`. Raises UsageError unless it is a constant, or worked out from constants."""
    written = text(data, span)
    try:
        nodes = list(ast.walk(ast.parse(f"({written})", mode="eval")))
    except SyntaxError:
        nodes = []
    if not nodes or any(isinstance(node, ast.expr) and not isinstance(node, _CONSTANT) for node in nodes):
        if at.key.startswith("-"):
            raise UsageError(f"its option has no default to change: give {at.key} on the command line")
        raise UsageError(f"it is not a plain value there: {on_one_line(written)}")
    return written


def on_one_line(written: str) -> str:
    """An expression on one line of a message."""
    line = " ".join(written.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _syntax(name: str) -> str:
    """The syntax of a file; a shell script, and a command line, have any suffix or none."""
    return _SYNTAXES.get(PurePosixPath(name).suffix, "shell")


def _editor(name: str) -> Any:
    # A syntax is imported for its first edit: a patch of a script needs no YAML.
    return importlib.import_module(f"autotune.syntax.edit_{name}")


def _entry(data: bytes, at: Location) -> DataValue:
    document: Document = read(data, at.file)
    return _at(document.entries, at, "value")


def _word(data: bytes, at: Location) -> ShellWord:
    commands = _commands(data, at)
    words = [word for each in commands for word in (*each.words, *(value for _, value in each.variables))]
    return _at(words, at, "word")


def _command(data: bytes, at: Location) -> ShellCommand:
    found = next((each for each in _commands(data, at) if each.line == at.line), None)
    if found is None:
        raise UsageError("the command is no longer where it was read")
    return found


def _commands(data: bytes, at: Location) -> tuple[ShellCommand, ...]:
    return cast(tuple[ShellCommand, ...], _reader("shell").read(data, at.file).commands)


def _reader(name: str) -> Any:
    return importlib.import_module(f"autotune.syntax.{name}")


def _at(things: Iterable[Spanned], at: Location, what: str) -> Spanned:
    found = next((thing for thing in things if thing.span == at.span), None)
    if found is None:
        raise UsageError(f"the {what} is no longer where it was read")
    return found
