"""An edit made again for other bytes of its file: those of a file that changed since, or that other edits changed."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any, cast

from autotune.errors import UsageError
from autotune.model.evidence import Location, Span, Value
from autotune.model.patch import Edit
from autotune.model.source import Document, Scalar, Splice
from autotune.patch import help_text, spell, statement
from autotune.patch.journal import sha256
from autotune.patch.places import calls, places
from autotune.syntax import edit_effect
from autotune.syntax.python import Source

_COMMENTS = ("#", "//", "/*")


def again(data: bytes, edit: Edit, near: int | None = None) -> Edit | None:
    """`edit` where its key stands in `data`; None where it is made already.

    `near` is a byte of the call that is meant, where a script has several. Raises UsageError, which says why, unless
    the old text stands at exactly one place of that key, or exactly one holder lacks the key that is added. What a call
    gets is only certain where no other call has its name: that one may have the value that is wanted, or the old one.
    """
    source = spell.read(data, edit.file)
    if help_text.is_of_help(edit):
        span = help_text.found_again(data, source, edit)
        return None if span is None else _moved(data, edit, span, edit.old, edit.new)
    if isinstance(source, Source) and "." in edit.key and not edit.key.startswith("-"):
        _call(source, edit.key, near)
    spans = places(source, edit.key, edit.old, near)
    if len(spans) > 1:
        lines = " and ".join(str(line_of(data, span)) for span in spans)
        raise UsageError(f"it stands at lines {lines} now")
    if spans:
        return _replaced(data, source, edit, spans[0])
    if not is_added(edit):
        raise UsageError("it is not there any more")
    splice = _added(data, source, edit, near)
    return _moved(data, edit, splice.span, spell.text(data, splice.span), splice.text)


def line_of(data: bytes, span: Span) -> int:
    """The line, from 1, where `span` starts."""
    return data.count(b"\n", 0, span.start) + 1


def _moved(data: bytes, edit: Edit, span: Span, old: str, new: str) -> Edit:
    return replace(edit, sha256=sha256(data), span=span, old=old, new=new)


def _call(source: Source, key: str, near: int | None) -> ast.Call:
    """The one call that gets the value of a key "DataLoader.num_workers"."""
    name = key.partition(".")[0]
    found = calls(source, name, near)
    if len(found) != 1:
        raise UsageError(f"{name} is called at {len(found)} places now")
    return found[0]


def is_added(edit: Edit) -> bool:
    """Whether the edit replaces nothing but a comment, which it writes again."""
    return not edit.old.strip() or edit.old.lstrip().startswith(_COMMENTS)


def _replaced(data: bytes, source: Any, edit: Edit, span: Span) -> Edit | None:
    now = spell.text(data, span)
    if now == edit.new or (now and is_added(edit) and _is_value(now, edit)):
        return None
    if now != edit.old:
        was = f", not {spell.shown(edit.old)}" if edit.old else ""
        raise UsageError(f"it is {spell.shown(now)} now{was}")
    if isinstance(source, Document):
        _confirm(data, source, edit, span)
    return _moved(data, edit, span, edit.old, edit.new)


def _confirm(data: bytes, source: Document, edit: Edit, span: Span) -> None:
    """Raises UsageError when the edit would also change other values: an anchor that is new there."""
    at = next(number for number, entry in enumerate(source.entries) if entry.span == span)
    splice = Splice(span, edit.new)
    entry = spell.read(edit_effect.spliced(data, splice), edit.file).entries[at]
    edit_effect.confirm(
        data, splice, lambda after: cast(Document, spell.read(after, edit.file)), entry.path, entry.value
    )


def _added(data: bytes, source: Any, edit: Edit, near: int | None) -> Splice:
    key = edit.key
    if isinstance(source, Source) and statement.named(key):
        return statement.again(source, edit)
    at = Location(edit.file, 1)
    if isinstance(source, Source):
        name, _, key = key.partition(".")
        at = Location(edit.file, _call(source, edit.key, near).lineno, name)
    elif not isinstance(source, Document):
        raise UsageError("which command it belongs to is not certain any more")
    return spell.inserted(data, at, key, cast(Value, _value(edit)), flag="")


def _is_value(now: str, edit: Edit) -> bool:
    return repr(_read(now, edit.file)) == repr(_value(edit))


def _value(edit: Edit) -> Scalar:
    """The value that an edit adds with its key, and with the holders of that: `, "o": {"a": 4}` adds 4."""
    if statement.named(edit.key):
        return statement.value(edit.new)
    name = re.escape(edit.key.rpartition(".")[2])
    found = re.fullmatch(rf"""(.*["']?\b{name}["']?\s*[:=]\s*)(.*)""", edit.new, re.DOTALL)
    if found is None:
        raise UsageError("what is to be added does not name its key")
    written = found[2].rstrip(", \t\r\n")
    for _ in range(found[1].count("{")):
        written = written.removesuffix("}").rstrip()
    return _read(written, edit.file)


def _read(written: str, name: str) -> Scalar:
    """A value as the consumer of the file reads it."""
    if name.endswith(".py"):
        try:
            return cast(Scalar, ast.literal_eval(written))
        except (ValueError, SyntaxError):
            raise UsageError(f"{spell.shown(written)} is no plain value") from None
    pattern = '{"v": %s}' if name.endswith((".json", ".jsonc")) else "v = %s" if name.endswith(".toml") else "v: %s"
    entries = spell.read((pattern % written).encode(), name).entries
    return cast(Scalar, entries[0].value)
