"""Attributes replaced in the user's process, and put back as they were."""

_ABSENT = object()


class Patches:
    """Remembers what every replaced attribute was. `restore` works backwards, so that double patches unwind."""

    def __init__(self) -> None:
        self._done = []

    def set(self, owner, name: str, value) -> None:
        """owner.name = value, to be restored. An inherited attribute is restored by deletion."""
        self._done.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def on_restore(self, undo) -> None:
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
