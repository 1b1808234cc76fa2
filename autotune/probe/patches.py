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
        self._done: list[tuple[Any, str | None, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """owner.name = value, to be restored. An inherited attribute is restored by deletion."""
        self._done.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def on_restore(self, undo: Undo) -> None:
        """Call `undo()` at restore, for what is no attribute."""
        self._done.append((undo, None, None))

    def restore(self) -> None:
        """Put everything back."""
        while self._done:
            owner, name, old = self._done.pop()
            if name is None:
                owner()
            elif old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
