"""The parent's side of a measurement: starts the command with the probe, watches it, ends it, reads its Recordings."""

from autotune.collect.command import Command, plan_command
from autotune.collect.isolation import SideEffects
from autotune.collect.progress import Status
from autotune.collect.request import Request
from autotune.collect.run import Collected, Raised, collect, not_held, write_manifest
from autotune.collect.stored import load

__all__ = [
    "Collected",
    "Command",
    "Raised",
    "Request",
    "SideEffects",
    "Status",
    "collect",
    "load",
    "not_held",
    "plan_command",
    "write_manifest",
]
