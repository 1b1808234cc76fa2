"""Edits into bytes: every byte outside the edited values stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from autotune.errors import UsageError
from autotune.model.patch import Edit
from autotune.patch import statement
from autotune.patch.journal import sha256

_OPENING = (b"(", b"[", b"{")


def spliced(data: bytes, edits: Sequence[Edit]) -> bytes:
    """`data` with all `edits` of its file. Raises UsageError when the file is not the one that they were made for.

    Members that several edits add at one place stand there in the order of the edits, with a comma between them.
    """
    _check(data, edits)
    places: dict[tuple[int, int], list[Edit]] = {}
    for edit in edits:
        places.setdefault((edit.span.start, edit.span.end), []).append(edit)
    merged = [reduce(lambda first, second: _joined(data, first, second), at) for _, at in sorted(places.items())]
    _check_order(merged)
    for edit in reversed(merged):
        data = data[: edit.span.start] + edit.new.encode() + data[edit.span.end :]
    return data


def _joined(data: bytes, first: Edit, second: Edit) -> Edit:
    """Two edits of one place as one. Raises UsageError when both replace what stands there."""
    lead = f",{second.old}"  # a comment that stays on the line of the last member
    if first.new.startswith(lead) and second.new.startswith(lead):
        return replace(first, new=f"{first.new},{second.new.removeprefix(lead)}")
    if second.old:
        raise _stale(second, "two edits of the patch overlap")
    if statement.named(first.key) and statement.named(second.key):
        return replace(first, new=statement.joined(first.new, second.new))
    is_first = data[: second.span.start].endswith(_OPENING) and not first.new.rstrip().endswith(",")
    comma = "" if not is_first else "," if second.new[:1].isspace() else ", "
    return replace(first, new=f"{first.new}{comma}{second.new}")


def _check(data: bytes, edits: Sequence[Edit]) -> None:
    digest = sha256(data)
    for edit in edits:
        if edit.sha256 != digest:
            raise _stale(edit, "the file changed since the diagnosis")
        if edit.span.end > len(data) or data[edit.span.start : edit.span.end] != edit.old.encode():
            raise _stale(edit, f"the bytes {edit.span.start} to {edit.span.end} are not {edit.old!r}")


def _check_order(ordered: Sequence[Edit]) -> None:
    end = 0
    for edit in ordered:
        if edit.span.start < end:
            raise _stale(edit, "two edits of the patch overlap")
        end = edit.span.end


def _stale(edit: Edit, what: str) -> UsageError:
    return UsageError(f"{edit.key}: {what}; nothing was changed", where=edit.file, to_do="Diagnose again.")
