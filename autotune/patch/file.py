"""patch.yaml: a patch as a file that a person can read, edit and delete lines of. docs/patch-file.md is its schema.

Strings are quoted as JSON does, and floats have a point, so that YAML 1.1 and 1.2 read the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autotune.errors import UsageError
from autotune.model.evidence import Value
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.model.source import DataValue
from autotune.patch import syntax_for
from autotune.syntax import yaml

SCHEMA = 2
NAME = "patch.yaml"
MOST_BYTES = 1 << 20
"""A second of reading; a patch has some kilobytes."""
_LONGEST_NAME = 4096

_EXPONENT = re.compile(r"^(-?\d+)e")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

_HEAD = """\
# Review it with `autotune apply --diff`, write it with `autotune apply`, revert it with `autotune undo`.
# To leave a change out, delete it here (from its `- setting:` to the next), or use --select.
"""


def dumps(patch: Patch) -> str:
    """The patch as YAML."""
    return _HEAD + "\n".join(_lines(patch)) + "\n"


def loads(data: bytes, where: str) -> Patch:
    """The patch in `data`. Raises UsageError that names the key when it is none, or one of a newer autotune."""
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"it has {len(data):,} bytes: no patch of autotune has more than {MOST_BYTES:,}",
            where=where,
            to_do="docs/patch-file.md shows the format.",
        )
    top = _Table(_tree(yaml.read(data, where).entries), where, "")
    if top.integer("schema") != SCHEMA:
        raise UsageError(f"schema {top.integer('schema')} is not {SCHEMA}", where=where, to_do="Diagnose again.")
    made = Patch(
        root=top.place("root"),
        run=top.text("run"),
        command=tuple(str(word) for word in top.rows("command")),
        changes=tuple(_change(row, top.texts("files")) for row in top.tables("changes")),
    )
    if not made.command and any(edit.file == TYPED for change in made.changes for edit in change.edits):
        raise top.wrong("command", "is empty, but an edit changes the command line")
    return made


def _lines(patch: Patch) -> Iterator[str]:
    yield f"schema: {SCHEMA}"
    yield f"root: {_scalar(patch.root)}"
    yield f"run: {_scalar(patch.run)}"
    yield f"command: {_flow(patch.command)}"
    digests = {edit.file: edit.sha256 for each in patch.changes for edit in each.edits if edit.sha256}
    if digests:
        yield "files:"
        yield from (f"  {_scalar(name)}: {_scalar(digest)}" for name, digest in digests.items())
    yield "changes:" if patch.changes else "changes: []"
    for change in patch.changes:
        yield f"- setting: {change.setting}"
        yield from (f"  {key}: {_scalar(value)}" for key, value in _scalars(change).items())
        yield f"  rules: {_flow(change.rules)}"
        if change.needs:
            yield f"  needs: {_flow(change.needs)}"
        yield "  edits:" if change.edits else "  edits: []"
        for edit in change.edits:
            yield f"  - file: {_scalar(edit.file)}"
            yield f"    key: {_scalar(edit.key)}"
            if edit.occurrence > 1:
                yield f"    occurrence: {edit.occurrence}"
            yield f"    old: {_scalar(edit.old)}"
            yield f"    new: {_scalar(edit.new)}"


def _scalars(change: PatchChange) -> Mapping[str, Value | None]:
    always: dict[str, Value | None] = {
        "subject": change.subject,
        "old": change.old,
        "new": change.new,
        "effect": change.effect.value,
    }
    return always | {key: text for key, text in (("gain", change.gain), ("by_hand", change.by_hand)) if text}


def _scalar(value: Value | None) -> str:
    if isinstance(value, float):
        return _EXPONENT.sub(r"\1.0e", repr(value))
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _flow(words: Sequence[str]) -> str:
    return f"[{', '.join(map(_scalar, words))}]"


def _change(row: _Table, digests: Mapping[str, str]) -> PatchChange:
    return PatchChange(
        setting=row.text("setting"),
        subject=row.text("subject"),
        old=row.scalar("old"),
        new=row.scalar("new", needed=True),
        rules=tuple(str(rule) for rule in row.rows("rules")),
        effect=Effect(row.choice("effect", [each.value for each in Effect])),
        gain=row.text("gain", default=""),
        edits=tuple(_edit(each, digests) for each in row.tables("edits")),
        by_hand=row.text("by_hand", default=""),
        needs=tuple(map(str, row.rows("needs"))) if row.get("needs") else (),
    )


def _edit(row: _Table, digests: Mapping[str, str]) -> Edit:
    occurrence = row.integer("occurrence") if row.get("occurrence") is not None else 1
    if occurrence < 1:
        raise row.wrong("occurrence", "must be 1 or more")
    return Edit(
        file=row.place("file"),
        key=row.text("key"),
        old=row.written("old", row.place("file")),
        new=row.written("new", row.place("file")),
        occurrence=occurrence,
        sha256=digests.get(row.place("file"), ""),
    )


class _Table:
    """One mapping of the file at `path`; every getter raises UsageError that names the key."""

    def __init__(self, data: Any, where: str, path: str) -> None:
        self.where, self.path = where, path
        if not isinstance(data, dict):
            raise self.wrong("", "must be a mapping")
        self.data: dict[str | int, Any] = data

    def wrong(self, key: str, what: str) -> UsageError:
        name = ".".join(part for part in (self.path, key) if part) or "the patch"
        return UsageError(f"{name} {what}", where=self.where, to_do="docs/patch-file.md shows the format.")

    def get(self, key: str, *, needed: bool = False) -> Any:
        value = self.data.get(key)
        if value is None and needed:
            raise self.wrong(key, "is missing")
        return value

    def scalar(self, key: str, *, needed: bool = False) -> Any:
        value = self.get(key, needed=needed)
        if isinstance(value, dict):
            raise self.wrong(key, "must be one value")
        return value

    def text(self, key: str, *, default: str | None = None) -> str:
        value = self.data.get(key, default)
        if isinstance(value, str):
            return value
        raise self.wrong(key, "is missing" if value is None else "must be a string")

    def written(self, key: str, file: str) -> str:
        """A text of `file`: 4 and true are spelled as they are there; "" where the key is missing."""
        value = self.scalar(key)
        return value if isinstance(value, str) else "" if value is None else syntax_for.literal(value, file)

    def texts(self, key: str) -> dict[str, str]:
        """A mapping of names to texts; empty where the key is missing."""
        found = self.data.get(key)
        if found is None:
            return {}
        if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
            raise self.wrong(key, "must be names with texts")
        return {str(name): text for name, text in found.items()}

    def place(self, key: str) -> str:
        text = self.text(key)
        if "\0" in text or len(text) > _LONGEST_NAME:
            raise self.wrong(key, "is not a file name")
        return text

    def integer(self, key: str) -> int:
        value = self.get(key, needed=True)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self.wrong(key, "must be a whole number")

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        value = self.text(key)
        if value in allowed:
            return value
        raise self.wrong(key, f"must be one of {', '.join(allowed)}")

    def rows(self, key: str) -> list[Any]:
        value = self.data.get(key)
        if isinstance(value, dict) and all(isinstance(index, int) for index in value):
            return list(value.values())
        raise self.wrong(key, "must be a list")

    def tables(self, key: str) -> list[_Table]:
        path = f"{self.path}.{key}" if self.path else key
        return [_Table(row, self.where, f"{path}.{number}") for number, row in enumerate(self.rows(key))]


def _tree(entries: Sequence[DataValue]) -> dict[str | int, Any] | None:
    """Nested mappings; a list is a mapping of its indices, and so is an empty one. None for a lone value."""
    tree: dict[str | int, Any] = {}
    for entry in entries:
        if not entry.path:
            return None
        at = tree
        for part in entry.path[:-1]:
            if not isinstance(at.get(part), dict):  # a key that is given twice: the last one counts
                at[part] = {}
            at = at[part]
        at[entry.path[-1]] = {} if entry.value == () else entry.value
    return tree
