"""What an edit of a data file does to the values that its consumer reads. Nothing but the wanted value may change."""

from __future__ import annotations

from autotune.errors import UsageError
from autotune.model.source import Document, Path, Scalar, Splice
from autotune.syntax.edit_style import is_same

_MOST = 3
"""Keys that an error names."""


def spliced(data: bytes, splice: Splice) -> bytes:
    """The file after the edit."""
    return data[: splice.span.start] + splice.text.encode() + data[splice.span.end :]


def confirm(before: Document, after: Document, path: Path, value: Scalar, where: str) -> None:
    """Raises UsageError unless `after` has `value` at `path`, and everywhere else what `before` has.

    What was empty (a key without a value, {}) may have become the parent of `path`.
    """
    old = {entry.path: entry.value for entry in before.entries}
    new = {entry.path: entry.value for entry in after.entries}
    for length in range(len(path)):
        if path[:length] not in new and old.get(path[:length], 0) in ((), None):
            old.pop(path[:length], None)
    wanted = {**old, path: value}
    missing = object()
    wrong = [one for one in {**wanted, **new} if not is_same(wanted.get(one, missing), new.get(one, missing))]
    if wrong:
        keys = ", ".join(".".join(map(str, one)) for one in wrong[:_MOST])
        raise UsageError(f"an edit of {'.'.join(map(str, path))} would not be the only change: {keys}", where=where)


def room(before: Document, holders: list[Path], parent: Path, key: str, where: str) -> tuple[Path, tuple[str, ...]]:
    """The deepest of `holders` (mappings of the file) that `parent` stands in, and the keys to add below it.

    Raises UsageError when the first of them is there already, or when one is an index of a list.
    """
    path = (*parent, key)
    at = max((one for one in holders if one == parent[: len(one)]), key=len, default=None)
    if at is None:
        raise UsageError("nothing can be added: the file holds no mapping", where=where)
    added = path[len(at) :]
    taken = any(entry.path[: len(at) + 1] == path[: len(at) + 1] for entry in before.entries)
    if taken or not all(isinstance(part, str) for part in added):
        what = f"{'.'.join(map(str, path[: len(at) + 1]))} {'stands there already' if taken else 'is not there'}"
        raise UsageError(f"{'.'.join(map(str, path))} cannot be added: {what}", where=where)
    return at, tuple(map(str, added))
