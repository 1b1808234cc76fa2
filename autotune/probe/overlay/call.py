"""The objects that stand in for the patched functions of `os` and `builtins`."""


class PatchedFunction:
    """Stands in for a built-in function. It is no Python function because those bind when a class holds them
    (pathlib 3.9 keeps `stat = os.stat` in a class), and it pickles by name as a built-in does."""

    def __init__(self, module: str, name: str, original, world) -> None:
        self.__module__, self.__name__ = module, name
        self._original, self._world = original, world

    def __getattr__(self, name: str):
        return getattr(self._original, name)

    def __repr__(self) -> str:
        return repr(self._original)

    def __eq__(self, other) -> bool:
        """Equal to the original, so that `os.stat in os.supports_dir_fd` answers as before."""
        return self is other or self._original is other

    def __hash__(self) -> int:
        return hash(self._original)

    def __reduce__(self) -> str:
        return self.__name__
