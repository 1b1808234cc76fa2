"""The objects that stand in for the patched functions of `os` and `builtins`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..shapes import Function
    from .world import World


class PatchedFunction:
    """Stands in for a built-in function. It is no Python function because those bind when a class holds them
    (pathlib 3.9 keeps `stat = os.stat` in a class), and it pickles by name as a built-in does."""

    def __init__(self, module: str, name: str, original: Function) -> None:
        self.__module__, self.__name__ = module, name
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __repr__(self) -> str:
        return repr(self._original)

    def __eq__(self, other: object) -> bool:
        """Equal to the original, so that `os.stat in os.supports_dir_fd` answers as before."""
        return self is other or self._original is other

    def __hash__(self) -> int:
        return hash(self._original)

    def __reduce__(self) -> str:
        return self.__name__


class OverlaidFunction(PatchedFunction):
    """One that goes by the files as the script sees them."""

    def __init__(self, module: str, name: str, original: Function, world: World) -> None:
        super().__init__(module, name, original)
        self._world = world
