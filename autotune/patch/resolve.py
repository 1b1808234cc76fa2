"""Where a symbolic edit stands in the bytes of its file: the one way from an edit to a splice.

A plan resolves its edits when it makes them, `apply --diff` and `apply` before they show and write them. A file that
changed in between is read as it is then.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from tokenize import detect_encoding
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.model.evidence import Location, Span
from autotune.model.patch import Edit, PatchChange
from autotune.model.scanned import TYPED
from autotune.model.source import NOTEBOOK, Document, ShellCommand, Splice
from autotune.patch import help_text, statement, syntax_for
from autotune.patch.dependencies import is_pair
from autotune.patch.journal import sha256
from autotune.patch.key_locations import KeyLocation, key_locations, name_at
from autotune.patch.notebook_text import text, texts, with_splice
from autotune.patch.value_readers import recheck
from autotune.syntax import edit_effect, shell_effect
from autotune.syntax.python import Source

TO_DO = "Diagnose again, or write the other changes with --select."


def resolve(data: bytes, edit: Edit, *, is_changed: bool = False) -> Splice | None:
    """The splice that `edit` is in the text `data` of its file; None where that has the new value already.

    `edit.occurrence` says which place of the key is meant. In a file that `is_changed` since the edit was made, the key
    has to have a single place. Raises UsageError, which says why, where that place is gone or has another value.
    """
    source = syntax_for.read(data, edit.file)
    if help_text.is_help_default(edit) and isinstance(source, Source):
        at = help_text.help_span(data, source, edit)
        return None if at is None else Splice(at, edit.new)
    found = _location_of(data, source, edit, is_changed)
    if found.span is not None:
        return _replacement(data, source, edit, found.span)
    if edit.old:
        raise UsageError("it no longer exists")
    return _addition(data, source, edit, found)


def to_symbolic(data: bytes, edit: Edit, splice: Splice) -> Edit:
    """`edit` of the file `data` with the occurrence of its key that `splice` is at; under the name that its place has
    there, where that is another one: a parameter that reaches a call by its position.

    Raises UsageError where no occurrence gives that splice: another reader of the file could not find it.
    """
    source = syntax_for.read(data, edit.file)
    other = name_at(source, splice.span) if isinstance(source, Source) and edit.old else ""
    for named in (edit, *([replace(edit, key=other)] if other else [])):
        for occurrence in range(1, len(key_locations(source, named)) + 1):
            one = replace(named, occurrence=occurrence, sha256=sha256(data))
            try:
                if resolve(data, one) == splice:
                    return one
            except UsageError:
                continue
    raise UsageError(f"{edit.key} has no unique location in {edit.file}: edit it by hand")


def apply_edits(data: bytes, edits: Sequence[Edit]) -> bytes:
    """`data`, which a file holds, with all `edits` of the file, each resolved in what those before it left. Raises
    UsageError when one of them cannot be made beside the others."""
    before = data
    for edit in edits:
        try:
            splice = resolve(text(edit.file, data), edit)
            if splice is not None:
                data = with_splice(edit.file, data, splice)
                syntax_for.read(text(edit.file, data), edit.file)
            elif data != before and _is_open(before, edit):
                raise UsageError(f"another edit stands at the place of {edit.key}")
        except UsageError as error:
            keys = ", ".join(dict.fromkeys(one.key for one in edits))
            together = f"{keys} cannot be written together: " if len(edits) > 1 else f"{edit.key}: "
            to_do = "Nothing was changed. Write one of them with --select, then diagnose again."
            raise UsageError(f"{together}{error.what}", where=edit.file, to_do=to_do) from error
    return data


def _is_open(data: bytes, edit: Edit) -> bool:
    """Whether an edit, that of a help text aside, is still to be made in a file."""
    return resolve(text(edit.file, data), edit) is not None and not help_text.is_help_default(edit)


class ResolvedChange(Struct, frozen=True):
    """A change for the files as they are now."""

    change: PatchChange
    """With the edits that are still to be made."""
    moved: tuple[str, ...] = ()
    """One line for each edit that was found in a file that changed since the diagnosis."""
    stale: UsageError | None = None
    """Why one of the edits cannot be made any more; None where all can."""
    is_made: bool = False
    """Whether the files have a value of the change already; the help text of an option is none."""


def resolve_change(change: PatchChange, read: Callable[[str], bytes]) -> ResolvedChange:
    """The change for the files as they are now; `read` gives the bytes of a file that an edit names."""
    read = texts(read)
    try:
        pairs = [(edit, _current_edit(edit, change.setting, read)) for edit in change.edits]
    except UsageError as error:
        return ResolvedChange(change, stale=error)
    edits = tuple(now for _, now in pairs if now is not None)
    is_made = any(now is None and not help_text.is_help_default(edit) for edit, now in pairs)
    return ResolvedChange(replace(change, edits=edits), tuple(_moved_lines(pairs, read)), is_made=is_made)


def drop_incomplete_pairs(changes: Sequence[ResolvedChange]) -> Iterator[ResolvedChange]:
    """The changes. A change is stale if the files already contain the other change of its pair.

    Somebody made that one since the diagnosis, and what holds only with both (the global batch) has changed.
    """
    for each in changes:
        others = [one for one in changes if one.is_made and is_pair(each.change, one.change)]
        is_left = any(edit.file != TYPED and not help_text.is_help_default(edit) for edit in each.change.edits)
        yield replace(each, stale=each.stale or _incomplete_pair(each, others[0])) if others and is_left else each


def line_of(data: bytes, place: int) -> int:
    """The line, from 1, of byte `place`."""
    return data.count(b"\n", 0, place) + 1


def _current_edit(edit: Edit, setting: str, read: Callable[[str], bytes]) -> Edit | None:
    """The edit for the bytes that its file has now; None where they have the new value."""
    if edit.file == TYPED:
        return edit
    data = read(edit.file)
    digest = sha256(data)
    is_changed = bool(edit.sha256) and edit.sha256 != digest
    try:
        splice = resolve(data, edit, is_changed=is_changed)
        if splice is not None and edit.sha256 != digest and edit.old and not help_text.is_help_default(edit):
            recheck(data, edit, splice.span, setting)
    except UsageError as error:
        since = "the file changed since the diagnosis, and " if is_changed else ""
        what = f"{edit.key}: {since}{error.what}; nothing was changed"
        raise UsageError(what, where=edit.file, to_do=TO_DO) from error
    occurrence = 1 if is_changed else edit.occurrence
    return None if splice is None else replace(edit, sha256=digest, occurrence=occurrence)


def _moved_lines(pairs: Iterable[tuple[Edit, Edit | None]], read: Callable[[str], bytes]) -> Iterator[str]:
    for edit, now in pairs:
        if now is not None and edit.sha256 and now.sha256 != edit.sha256:
            data = read(edit.file)
            splice = resolve(data, now)
            assert splice is not None
            where = "there" if edit.file.endswith(NOTEBOOK) else f"at line {line_of(data, splice.span.start)}"
            yield f"{edit.file} changed since the diagnosis: {edit.key} was found {where}"


def _incomplete_pair(half: ResolvedChange, made: ResolvedChange) -> UsageError:
    change, other = half.change, made.change
    at = next(edit.file for edit in change.edits if edit.file != TYPED)
    why = f"{change.setting} = {change.new} depends on that; nothing was changed"
    what = f"since the diagnosis someone wrote {other.setting} = {other.new}, and {why}"
    return UsageError(what, where=at, to_do=TO_DO)


def _location_of(data: bytes, source: Any, edit: Edit, is_changed: bool) -> KeyLocation:
    """The place that the edit means."""
    found = key_locations(source, edit)
    if is_changed and len(found) > 1:
        raise UsageError(_several_locations(data, edit, found))
    if is_changed and found:
        return found[0]
    if edit.occurrence > len(found):
        raise UsageError(_several_locations(data, edit, found) if found else "it no longer exists")
    return found[edit.occurrence - 1]


def _several_locations(data: bytes, edit: Edit, found: Sequence[KeyLocation]) -> str:
    if isinstance(found[0].holder, ast.Call):
        return f"{edit.key.partition('.')[0]} is called at {len(found)} places now"
    lines = " and ".join(str(line_of(data, one.span.start)) for one in found if one.span is not None)
    return f"it is at lines {lines} now" if lines else f"{len(found)} commands could get it"


def _replacement(data: bytes, source: Any, edit: Edit, span: Span) -> Splice | None:
    now = syntax_for.text(data, span)
    if now == edit.new or (now and not edit.old and _is_value(now, edit)):
        return None
    if now != edit.old:
        was = f", not {syntax_for.on_one_line(edit.old)}" if edit.old else ""
        raise UsageError(f"it is {syntax_for.on_one_line(now)} now{was}")
    splice = Splice(span, edit.new)
    if isinstance(source, Source):
        _check_expression(data, edit.new)
    elif isinstance(source, Document):
        _confirm(data, source, edit, splice)
    else:
        words = (word for each in source.commands for word in (*each.words, *(one for _, one in each.variables)))
        shell_effect.confirm(data, splice, next(word for word in words if word.span == span))
    return splice


def _check_expression(data: bytes, written: str) -> None:
    """Raises UsageError unless the text is one expression, in an encoding that its file has."""
    try:
        node = ast.parse(written, mode="eval").body
    except SyntaxError:
        node = None
    if node is None or (isinstance(node, ast.Tuple) and not written.lstrip().startswith("(")):
        raise UsageError(f"{syntax_for.on_one_line(written)} is no expression")
    if not written.isascii() and detect_encoding(BytesIO(data).readline)[0] not in ("utf-8", "utf-8-sig"):
        raise UsageError(f"{syntax_for.on_one_line(written)} cannot be written in a file that is not UTF-8")


def _confirm(data: bytes, source: Document, edit: Edit, splice: Splice) -> None:
    """Raises UsageError when the edit would also change other values, as where an anchor stands there."""
    at = next(number for number, entry in enumerate(source.entries) if entry.span == splice.span)
    entries = syntax_for.read(edit_effect.spliced(data, splice), edit.file).entries
    if len(entries) != len(source.entries):
        raise UsageError(f"{syntax_for.on_one_line(edit.new)} is no value in its place")
    entry = entries[at]
    edit_effect.confirm(
        data, splice, lambda after: cast(Document, syntax_for.read(after, edit.file)), entry.path, entry.value
    )


def _addition(data: bytes, source: Any, edit: Edit, place: KeyLocation) -> Splice:
    value = syntax_for.value(edit.new, edit.file)
    if isinstance(source, Source):
        if statement.function_of_key(edit.key):
            return statement.added_statement(source, edit.key, value)
        if not isinstance(place.holder, ast.Call):
            raise UsageError("it no longer exists")
        return syntax_for.argument(source, place.holder, edit.key.partition(".")[2], value)
    if isinstance(source, Document):
        return syntax_for.inserted(data, Location(edit.file, 1), edit.key, value, flag="")
    if not isinstance(place.holder, ShellCommand):
        raise UsageError("it no longer exists")
    at = Location(edit.file, place.holder.line)
    return syntax_for.inserted(data, at, "", value, flag=edit.key.rpartition(" ")[2])


def _is_value(now: str, edit: Edit) -> bool:
    return repr(syntax_for.value(now, edit.file)) == repr(syntax_for.value(edit.new, edit.file))
