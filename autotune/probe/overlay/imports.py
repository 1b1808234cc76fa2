"""Modules that the script has just written: the import system reads past the overlay, so they are found in scratch.

Limits: a module that exists in the real tree too is imported from there, and `__file__` of a found one lies in scratch.
"""

from __future__ import annotations

import _frozen_importlib_external as external
import os
import sys

from ..patches import standing_for
from .layer import is_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from ..patches import Patches
    from ..shapes import Function
    from .world import World


class Finder:
    """The last finder on sys.meta_path: asked only for what no other one found."""

    def __init__(self, world: World) -> None:
        self._world = world

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of module `name` in the scratch twins of `path` (sys.path when None), or None."""
        if not self._world.shared.view[0]:
            return None
        twins = [self._twin(folder) for folder in (sys.path if path is None else path)]
        return external.PathFinder.find_spec(name, [twin for twin in twins if twin is not None], target)

    def _twin(self, folder: object) -> str | None:
        if not isinstance(folder, str):
            return None
        try:
            place = self._world.place(folder or ".")
        except OSError:
            return None
        layer = self._world.layer(place)
        twin = layer.upper + place if layer is not None else None
        # Of a folder that is not there the import system remembers that it never will be.
        return twin if twin is not None and is_folder(twin) else None


def install(world: World, patches: Patches) -> None:
    """Put a Finder at the end of sys.meta_path, and let spec_from_file_location read where the script has written."""
    finder = Finder(world)
    sys.meta_path.append(finder)
    patches.on_restore(lambda: sys.meta_path.remove(finder))
    mapped = _mapped(world, external.spec_from_file_location)
    # importlib.util takes the function by name when it is imported, and is a frozen module, which has no import hook.
    for module in (external, sys.modules.get("importlib.util")):
        if module is not None:
            patches.set(module, "spec_from_file_location", mapped)


def _mapped(world: World, original: Function) -> Function:
    def spec_from_file_location(name: str, location: Any = None, **kwargs: Any) -> Any:
        # With a loader it is the import system that asks, for a file that it has found.
        if kwargs.get("loader") is None and isinstance(location, (str, os.PathLike)) and world.shared.view[0]:
            location = world.reading(location) or location
        return original(name, location, **kwargs)

    return standing_for(original, spec_from_file_location)
