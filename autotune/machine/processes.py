"""Processes of this machine by number and start time: a number alone may be given out again."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SAME_START_S = 2.0
"""Start times are counted from the boot time, which a correction of the clock may shift."""


def identity(pid: int | None = None) -> dict[str, Any]:
    """What tells a process from every other one: "pid", "process_start" (s since 1970) and "host".

    Raises ProcessLookupError when there is no such process.
    """
    import psutil  # of the extra "train": what reads a stored run does without

    number = os.getpid() if pid is None else pid
    try:
        started = psutil.Process(number).create_time()
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(f"no process {number}") from error
    return {"pid": number, "process_start": started, "host": _host()}


def is_gone(who: Mapping[str, Any]) -> bool:
    """Whether the process that `identity` described has certainly ended.

    False in doubt: an incomplete identity, a process of another host (a shared folder), one that hides from us, or an
    installation that cannot ask.
    """
    try:
        import psutil
    except ImportError:  # of the extra "train"
        return False

    pid, started = who.get("pid"), who.get("process_start")
    if not isinstance(pid, int) or not isinstance(started, int | float) or who.get("host") != _host():
        return False
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        return abs(process.create_time() - started) > _SAME_START_S
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def is_here(who: Mapping[str, Any]) -> bool:
    """Whether the process that `identity` described ran on this machine, in this container: its end is then seen."""
    return who.get("host") == _host()


def _host() -> str:
    """Where process numbers mean the same: the host and, on Linux, the process namespace (container)."""
    try:
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} {namespace}"
