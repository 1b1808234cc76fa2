"""The processes of one job: all of them are ended, and none of them may run without the probe."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
_PATIENCE_S = 1.0
_END_S = 5.0


def end_job(pid: int, folder: Path) -> None:
    """Kill process `pid`, its group, its descendants, and every interpreter that said hello in `folder`.

    Launchers such as torchrun put their children into sessions of their own, and children of a launcher that died
    belong to init: the hello files name them all the same. multiprocessing's resource tracker ends by itself when the
    others are gone, and unlinks their semaphores and shared memory on its way: it comes last.
    """
    members = _job(pid, folder)
    trackers = [member for member in members if _is_tracker(member)]
    _kill([member for member in members if member not in trackers], _END_S)
    psutil.wait_procs(trackers, timeout=_END_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    _kill(trackers, _END_S)


def _kill(members: list[psutil.Process], timeout_s: float) -> None:
    for member in members:
        with contextlib.suppress(psutil.Error):
            member.kill()
    psutil.wait_procs(members, timeout=timeout_s)


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any("resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A running Python process: how it was started, where, and with which environment."""

    argv: tuple[str, ...]
    cwd: str
    environ: Mapping[str, str]


def uninjected(pid: int, folder: Path, first_seen: dict[int, float]) -> Interpreter | None:
    """A Python process of the job that carries no probe, None when all do.

    The probe says hello within the first tenths of a second; importing torch takes longer than the patience here.
    `first_seen` is this function's memory between calls: when a process was first seen to be a Python, or last seen to
    be stopped.
    """
    for member in _descendants(pid):
        with contextlib.suppress(psutil.Error):
            if not _PYTHON.fullmatch(Path(member.exe()).name):
                continue
            if member.status() == psutil.STATUS_STOPPED:
                first_seen[member.pid] = time.monotonic()
            since = first_seen.setdefault(member.pid, time.monotonic())
            if _greeted(member, folder) or time.monotonic() - since < _PATIENCE_S:
                continue
            # Linux shows no command line at all for a moment of exec: such a one is asked again.
            argv = tuple(member.cmdline())
            if argv and not _is_fork(member, argv, folder):
                return Interpreter(argv, member.cwd(), member.environ())
    return None


def _greeted(process: psutil.Process, folder: Path) -> bool:
    return (folder / f"hello-{process.pid}").exists()


def _is_fork(process: psutil.Process, argv: tuple[str, ...], folder: Path) -> bool:
    """Whether it is a fork of an interpreter that carries the probe, which it then carries too, e.g. a worker."""
    parents = [parent for parent in process.parents() if _greeted(parent, folder)]
    return any(tuple(parent.cmdline()) == argv for parent in parents)


def _job(pid: int, folder: Path) -> list[psutil.Process]:
    greeted = [int(path.name.split("-")[1]) for path in folder.glob("hello-*")]
    found = _descendants(pid)
    for number in greeted:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(number)
            if _carries(process, folder):
                found += [process, *process.children(recursive=True)]
    return [process for process in dict.fromkeys(found) if process.pid != os.getpid()]


def _carries(process: psutil.Process, folder: Path) -> bool:
    """Whether it is still the process that said hello: numbers are given out again."""
    return process.environ().get("AUTOTUNE_REQUEST", "").startswith(str(folder))


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.Error:
        return []
