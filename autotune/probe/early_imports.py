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
    if not known:
        del sys.modules[name]
    return module
