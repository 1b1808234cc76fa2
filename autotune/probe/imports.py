"""Post-import callbacks: one finder on sys.meta_path that acts only on the modules it was asked for."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable

    from .shapes import OnImport


def install(callbacks: dict[str, list[OnImport]]) -> None:
    """Call each of `callbacks[name]` with the module, right after module `name` was executed for the first time."""
    pending = {name: list(functions) for name, functions in callbacks.items()}
    for name in [name for name in pending if name in sys.modules]:
        _call(pending.pop(name), sys.modules[name])
    sys.meta_path.insert(0, _Finder(pending))


class _Finder:
    """Lets the other finders find, and wraps `exec_module` of what they found (on the loader, for this once)."""

    def __init__(self, pending: dict[str, list[OnImport]]) -> None:
        self._pending = pending

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._pending:
            return None
        spec = self._ask_the_others(name, path, target)
        # A frozen or built-in module's loader is a class that all of them share: leave those alone.
        if spec is not None and hasattr(spec.loader, "exec_module") and not isinstance(spec.loader, type):
            # Finding is not importing: libraries look for torch with find_spec and never load that spec.
            _wrap(spec.loader, lambda: self._pending.pop(name, []))
        return spec

    def _ask_the_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


def _wrap(loader: Any, take: Callable[[], list[OnImport]]) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        # Back to the class's own method first: the module must see its loader as it is natively.
        del loader.exec_module
        execute(module)
        _call(take(), module)

    loader.exec_module = exec_module


def _call(functions: list[OnImport], module: Any) -> None:
    for function in functions:
        try:
            function(module)
        except Exception as error:  # a broken probe must never break the user's import
            sys.stderr.write(f"autotune: probe of {module.__name__} failed: {type(error).__name__}: {error}\n")
