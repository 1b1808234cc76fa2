"""Edits into bytes: every byte outside the edited values stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import UsageError
from autotune.model.patch import Edit
from autotune.patch.journal import sha256


def spliced(data: bytes, edits: Sequence[Edit]) -> bytes:
    """`data` with all `edits` of its file. Raises UsageError when the file is not the one that they were made for."""
    ordered = sorted(edits, key=lambda edit: (edit.span.start, edit.span.end))
    _check(data, ordered)
    for edit in reversed(ordered):
        data = data[: edit.span.start] + edit.new.encode() + data[edit.span.end :]
    return data


def _check(data: bytes, ordered: Sequence[Edit]) -> None:
    digest, end = sha256(data), 0
    for edit in ordered:
        if edit.sha256 != digest:
            raise _stale(edit, "the file changed since the diagnosis")
        if data[edit.span.start : edit.span.end] != edit.old.encode():
            raise _stale(edit, f"the bytes {edit.span.start} to {edit.span.end} are not {edit.old!r}")
        if edit.span.start < end:
            raise _stale(edit, "two edits of the patch overlap")
        end = edit.span.end


def _stale(edit: Edit, what: str) -> UsageError:
    return UsageError(f"{edit.key}: {what}; nothing was changed", where=edit.file, to_do="Diagnose again.")
