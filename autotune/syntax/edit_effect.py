"""What an edit of a data file does to the values that its consumer reads. Nothing but the wanted value may change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from autotune.errors import UsageError
from autotune.model.source import Document, Path, Scalar, Splice
from autotune.syntax.edit_style import is_same

_MOST = 3
"""Keys that an error names."""


def spliced(data: bytes, splice: Splice) -> bytes:
    """The file after the edit."""
    return data[: splice.span.start] + splice.text.encode() + data[splice.span.end :]


def confirm(data: bytes, splice: Splice, read: Callable[[bytes], Document], path: Path, value: Scalar) -> None:
    """Raises UsageError unless the edited file has `value` at `path`, and everywhere else what it had.

    What was empty (a key without a value, {}) may have become the parent of `path`.
    """
    try:
        after = read(spliced(data, splice))
    except UsageError as error:
        raise UsageError(f"{_name(path)} cannot be written here", to_do="Edit it by hand.") from error
    old = {entry.path: entry.value for entry in read(data).entries}
    new = {entry.path: entry.value for entry in after.entries}
    for parent in (path[:length] for length in range(len(path))):
        if parent not in new and old.get(parent, 0) in ((), None):
            old.pop(parent, None)
    wanted, missing = {**old, path: value}, object()
    wrong = [one for one in {**wanted, **new} if not is_same(wanted.get(one, missing), new.get(one, missing))]
    if wrong:
        keys = ", ".join(map(_name, wrong[:_MOST]))
        raise UsageError(f"an edit of {_name(path)} would also change {keys}", to_do="Edit it by hand.")


def parsed_values(document: Document) -> set[Path]:
    """Every path of a file that a value stands at or below."""
    return {entry.path[:length] for entry in document.entries for length in range(1, len(entry.path) + 1)}


def insertion_point(taken: Set[Path], mappings: Iterable[Path], path: Path) -> tuple[Path, tuple[str, ...]]:
    """The deepest of the `mappings` of a file that `path` stands in, and the keys to add below it.

    Raises UsageError when the first of them is `taken`, or when one is an index of a list.
    """
    at = max((one for one in mappings if one == path[: len(one)] != path), key=len, default=None)
    added = () if at is None else path[len(at) :]
    first = path[: len(path) - len(added) + 1]
    if first in taken:
        raise UsageError(f"{_name(path)} cannot be added: {_name(first)} stands there already")
    if not added or not all(isinstance(part, str) for part in added):
        raise UsageError(f"{_name(path)} cannot be added: nothing that could hold it is there")
    return at or (), tuple(map(str, added))


def _name(path: Path) -> str:
    return ".".join(map(str, path))
