"""Attributes replaced in the user's process, and put back as they were."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .shapes import Function, Undo

_ABSENT = object()


def standing_for(original: Any, function: Any) -> Function:
    """`function` under the name and the docstring of `original`: functools.wraps, which must not be imported early."""
    function.__wrapped__ = original
    function.__name__ = getattr(original, "__name__", function.__name__)
    function.__doc__ = getattr(original, "__doc__", None)
    stand_in: Function = function
    return stand_in


class Patches:
    """Remembers what every replaced attribute was. `restore` works backwards, so that double patches unwind."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str | None, Any, Any]] = []
        self._suspended: list[tuple[Any, str, Any, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """owner.name = value, to be restored. An inherited attribute is restored by deletion."""
        self._done.append((owner, name, vars(owner).get(name, _ABSENT), value))
        setattr(owner, name, value)

    def on_restore(self, undo: Undo) -> None:
        """Call `undo()` at restore, for what is no attribute."""
        self._done.append((undo, None, None, None))

    def restore(self) -> None:
        """Put everything back."""
        while self._done:
            owner, name, old, _ = self._done.pop()
            if name is None:
                owner()
            else:
                _put(owner, name, old)

    def suspend(self) -> None:
        """Put attributes back until `resume`. One that somebody else has replaced meanwhile stays theirs; what is no
        attribute waits for `restore`."""
        known: dict[tuple[int, str], tuple[Any, str, Any, Any]] = {}
        for owner, name, old, value in self._done:
            if name is not None:
                first = known.get((id(owner), name), (owner, name, old, value))[2]
                known[id(owner), name] = owner, name, first, value
        self._suspended = [row for row in known.values() if vars(row[0]).get(row[1], _ABSENT) is row[3]]
        self._done = [row for row in self._done if row[1] is None]
        for owner, name, old, _ in self._suspended:
            _put(owner, name, old)

    def resume(self) -> None:
        """Replace again what is as it was, by the same objects: for others torch.compile would compile once more."""
        suspended, self._suspended = self._suspended, []
        for owner, name, old, value in suspended:
            if vars(owner).get(name, _ABSENT) is old:
                self.set(owner, name, value)


def _put(owner: Any, name: str, value: Any) -> None:
    if value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
