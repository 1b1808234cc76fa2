"""Modules of the standard library that the probe needs before the script's folder is on sys.path."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def import_early(name: str) -> Any:
    """Module `name`, left in sys.modules only if it was there: a user's own module of that name must still win."""
    known = name in sys.modules
    module = __import__(name)
    # No module of a user's wins over a built-in one; Python 3.9 calls no exit function of an atexit that was forgotten.
    if not known and name not in sys.builtin_module_names:
        del sys.modules[name]
    return module
