"""The processes of one job: all of them are ended, and none of them may run without the probe."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
from msgspec import Struct

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
_PATIENCE_S, _PATIENCE_CPU_S, _LONGEST_S = 1.0, 0.3, 10.0
_END_S = 5.0
_SET_CHILD_SUBREAPER = 36
_MOST_ROUNDS = 100


def start_job(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a job in a session of its own; from now on `end_job` finds what it leaves behind.

    This process becomes the one to which the system gives the children of processes that ended (prctl(2),
    PR_SET_CHILD_SUBREAPER); otherwise a daemon would belong to init, and nobody would find it.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with _lock:
        if not _jobs:
            _own.clear()
            _own.update(psutil.Process().children())
        child = start()
        _jobs.add(child.pid)
    return child


_lock = threading.Lock()
_jobs: set[int] = set()
"""The jobs that run now: `verify` runs two at once."""

_own: set[psutil.Process] = set()
"""Children that this process had before the first of these jobs (of a notebook)."""


def end_job(pid: int, folder: Path) -> tuple[str, ...]:
    """Kill process `pid`, its group, its descendants and what these left behind; returns the names of the last.

    Of two jobs that run at once, the first to end leaves alone what cannot be told to be its own: that has an
    environment without the Request in `folder`. multiprocessing's resource tracker ends by itself when the others are
    gone, and unlinks their semaphores and shared memory on its way: it comes last.
    """
    members = _descendants(pid)
    trackers = [member for member in members if _is_tracker(member)]
    _kill([member for member in members if member not in trackers], _END_S)
    psutil.wait_procs(trackers, timeout=_END_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    _kill(trackers, _END_S)
    with _lock:
        _jobs.discard(pid)
        return _end_orphans(pid, folder)


def _end_orphans(pid: int, folder: Path) -> tuple[str, ...]:
    """Kill the orphans until none is left: one that is being killed may just have forked."""
    names: list[str] = []
    killed: set[psutil.Process] = set()  # what hangs in the kernel cannot be ended, and is not waited for twice
    for _ in range(_MOST_ROUNDS):
        children = [child for child in psutil.Process().children() if child.pid != pid and child not in killed]
        orphans = [child for child in children if _is_orphan(child, folder)]
        if not orphans:
            break
        killed.update(orphans)
        for orphan in orphans:
            names += _name_if_alive(orphan)
            _kill(_descendants(orphan.pid), _END_S)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan.pid, os.WNOHANG)
    return tuple(dict.fromkeys(names))


def _is_orphan(child: psutil.Process, folder: Path) -> bool:
    """Whether a child of this process was left to it by a job that ended. Its own children are of its session."""
    try:
        if child.pid in _jobs or child in _own or os.getsid(child.pid) == os.getsid(0):
            return False
        return not _jobs or child.environ().get("AUTOTUNE_REQUEST", "").startswith(str(folder))
    except (psutil.Error, ProcessLookupError):
        return False


def _name_if_alive(process: psutil.Process) -> list[str]:
    try:
        return [] if process.status() == psutil.STATUS_ZOMBIE or _is_tracker(process) else [process.name()]
    except psutil.Error:
        return []


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


class Interpreter(Struct, frozen=True):
    """A running Python process: how it was started, where, and with which environment."""

    argv: tuple[str, ...]
    cwd: str
    environ: Mapping[str, str]


Image = tuple[int, int]
"""A process and the program that it runs: its number, and where the kernel put the stack, which exec moves."""


class ProcessRecord(Struct, frozen=True):
    """When a Python was first seen, or last seen to be stopped, and the CPU seconds that it had used by then."""

    at_s: float
    cpu_s: float


def uninjected(pid: int, folder: Path, seen: dict[Image, ProcessRecord]) -> Interpreter | None:
    """A Python process of the job that carries no probe, None when all do.

    The probe maps a file of the run folder into each process in the first tenths of a second that it runs; importing
    torch takes longer. A fork keeps the mapping and exec drops it, as they do with the probe; so does an interpreter
    that ends, for which reason one that had it is not asked again. `seen` is this function's memory between calls.
    """
    for member in _descendants(pid):
        with contextlib.suppress(psutil.Error, OSError):
            if not _PYTHON.fullmatch(Path(member.exe()).name):
                continue
            image = (member.pid, _stack_start(member.pid))
            if seen.get(image) is _CARRIES:
                continue
            if _carries_probe(member.pid, folder):
                seen[image] = _CARRIES
                continue
            now = ProcessRecord(time.monotonic(), sum(member.cpu_times()[:2]))
            if member.status() == psutil.STATUS_STOPPED:
                seen[image] = now
            if not _had_time(seen.setdefault(image, now), now):
                continue
            # Linux shows no command line at all for a moment of exec: such a one is asked again.
            argv = tuple(member.cmdline())
            if argv and _LAUNCHER not in " ".join(argv[:4]):
                return Interpreter(argv, member.cwd(), member.environ())
    return None


def _had_time(first: ProcessRecord, now: ProcessRecord) -> bool:
    """Whether a Python had the time to begin the probe: on a busy machine a second may hold no work of it at all."""
    waited_s = now.at_s - first.at_s
    return waited_s >= _LONGEST_S or (waited_s >= _PATIENCE_S and now.cpu_s - first.cpu_s >= _PATIENCE_CPU_S)


_CARRIES = ProcessRecord(float("inf"), 0.0)
_LAUNCHER = "mount_namespace.py"
"""Ours: it turns into the command, as soon as the mounts stand."""


def _stack_start(pid: int) -> int:
    """Field 28 of /proc/PID/stat, proc_pid_stat(5)."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    return int(text.rpartition(")")[2].split()[25])


def _carries_probe(pid: int, folder: Path) -> bool:
    return f"/{folder.name}/hello-" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")


def member_pids(pid: int) -> list[int]:
    """Process `pid` and its descendants."""
    return [member.pid for member in _descendants(pid)]


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.Error:
        return []
