"""The parent's side of a measurement: starts the command with the probe, watches it, ends it, reads its Recordings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.collect.command import PlannedCommand, plan_command
    from autotune.collect.isolation import SideEffects
    from autotune.collect.load_recordings import load
    from autotune.collect.progress import Status
    from autotune.collect.request import Request
    from autotune.collect.run import Collected, EarlyException, collect, isolation_gaps, write_manifest

__all__ = [
    "Collected",
    "EarlyException",
    "PlannedCommand",
    "Request",
    "SideEffects",
    "Status",
    "collect",
    "isolation_gaps",
    "load",
    "plan_command",
    "write_manifest",
]

_MODULES = {
    "PlannedCommand": "command",
    "plan_command": "command",
    "SideEffects": "isolation",
    "Status": "progress",
    "Request": "request",
    "load": "load_recordings",
}


def __getattr__(name: str) -> Any:
    """A module is imported when its name is used: a stored run is read where nothing can be measured (Windows)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'run')}"), name)
