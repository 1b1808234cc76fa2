"""One measurement from start to end: the child, its limits, its Recordings."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.collect import artefacts, command, leftovers, messages, progress
from autotune.collect import request as requests
from autotune.collect.stored import load
from autotune.errors import ScriptError
from autotune.machine import Sampled, Sampler, connect_nvml, identity
from autotune.machine.job import Interpreter, end_job, uninjected
from autotune.machine.signals import check_interrupted, cleaned_up
from autotune.model.recording import Recording

POLL_S = 0.1
GRACE_S = 45.0
"""After the window's own time limit: what-ifs, writing, and a training thread that is deep inside a kernel."""

Hold = Callable[[int], AbstractContextManager[None]]
"""Holds the process group of a start until that is to end."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What one measurement brought. `ended_by`: probe | script | bug | startup_limit | time_limit |
    not_injected.

    `startup_s` is from the start to the first optimizer step (None: never), `exit_code` the command's own.
    `waiting_in` is where the training thread was last seen before its first step, `bugs` the notes (type and frames)
    of processes that the probe ended because it failed itself. `said` are the last lines that the command wrote to
    stderr, where that went into a file. `pid` is the process that was started, the first of its group.
    """

    folder: Path
    recordings: tuple[Recording, ...]
    ended_by: str
    exit_code: int | None
    wall_s: float
    startup_s: float | None
    sampled: Sampled | None
    waiting_in: str = ""
    bugs: tuple[str, ...] = ()
    said: str = ""
    pid: int | None = None


def not_held(pid: int) -> AbstractContextManager[None]:
    """Lets it go on."""
    return nullcontext()


def collect(
    request: requests.Request,
    words: command.Command,
    folder: Path,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    show: Callable[[progress.Status], None],
    stdout: int | None = None,
    stderr: Path | None = None,
    hold: Hold = not_held,
    protected: Path | None = None,
) -> Collected:
    """Run the command with the probe until the window is over; `show` gets the live status.

    `protected` is a folder that the script owns beside its own and the working folder's project.
    `stdout` is a file descriptor for the child's output (None: inherited), `stderr` a file for its messages; `hold` may
    stop its process group now and then. A Python process that starts without the probe (-I, a PYTHONPATH of the
    script's own, env -i) ends the command before torch is imported, and is then started by us with the probe. On any
    way out, Ctrl-C and SIGTERM included, the whole process tree is ended and scratch is deleted.
    """
    roots = (*_roots(words, cwd), *([protected] if protected is not None else []))
    path = requests.write(request, folder, roots, environ)
    artefacts.write_json(folder / artefacts.MANIFEST, {**identity(), "command": list(words.argv[:1])})
    began = _Began(words.argv, str(cwd), command.environment(environ, path))
    for last_try in (False, True):
        result = _attempt(request, began, folder, show, (stdout, stderr), hold)
        if isinstance(result, Collected):
            return result if stderr is None else replace(result, said=messages.last_lines(stderr))
        if last_try:
            break
        began = _Began(command.injected(result.argv), result.cwd, command.environment(result.environ, path))
    return Collected(folder, (), "not_injected", None, 0.0, None, None)


_Output = tuple[int | None, Path | None]


@dataclass(frozen=True, slots=True)
class _Began:
    argv: tuple[str, ...]
    cwd: str
    environ: Mapping[str, str]


def _attempt(
    request: requests.Request,
    began: _Began,
    folder: Path,
    show: Callable[[progress.Status], None],
    output: _Output,
    hold: Hold,
) -> Collected | Interpreter:
    """One start. An Interpreter is the process of the job that had no probe."""
    with cleaned_up():
        try:
            leftovers.make_sockets(folder)
            child = _start(began, output)
            try:
                with hold(child.pid):
                    return _watch(request, child, folder, show)
            finally:
                end_job(child.pid, folder)
                child.wait()
        finally:
            leftovers.remove_scratch(folder)


def _start(began: _Began, output: _Output) -> subprocess.Popen[bytes]:
    stdout, stderr = output
    try:
        with nullcontext() if stderr is None else stderr.open("wb") as file:
            return subprocess.Popen(
                began.argv,
                cwd=began.cwd,
                env=dict(began.environ),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=file,
                start_new_session=True,
            )
    except OSError as error:
        raise ScriptError(
            f"it cannot be started: {error.strerror}",
            where=began.argv[0],
            to_do="Check the path and its permissions.",
        ) from error


def _roots(words: command.Command, cwd: Path) -> tuple[Path, ...]:
    """Folders that the script owns: the project, the working folder and the script's own."""
    script = [words.script.resolve().parent] if words.script is not None else []
    return tuple(dict.fromkeys([artefacts.project_root(cwd), cwd, *script]))


def _watch(
    request: requests.Request,
    child: subprocess.Popen[bytes],
    folder: Path,
    show: Callable[[progress.Status], None],
) -> Collected | Interpreter:
    began, startup_s = time.monotonic(), None
    pythons: dict[int, float] = {}
    with Sampler(child.pid, library=connect_nvml()[0]) as sampler:
        while True:
            check_interrupted()
            code = child.poll()
            elapsed = time.monotonic() - began
            seen = progress.read(folder, elapsed)
            if startup_s is None and seen.steps:
                startup_s = elapsed
            reason = _reason(request, folder, elapsed, startup_s) or ("script" if code is not None else "")
            if reason:
                break
            bare = uninjected(child.pid, folder, pythons)
            if bare is not None:
                return bare
            show(seen)
            time.sleep(POLL_S)
    recordings = load(folder)
    return Collected(
        folder=folder,
        recordings=recordings,
        ended_by=reason,
        exit_code=code,
        wall_s=time.monotonic() - began,
        startup_s=_first_step_s(recordings, began) or startup_s,
        sampled=sampler.stop(),
        waiting_in=seen.where,
        pid=child.pid,
        bugs=tuple(note.read_text("utf-8", "replace") for note in sorted(folder.glob("bug-*"))),
    )


def _first_step_s(recordings: tuple[Recording, ...], began: float) -> float | None:
    """Seconds from `began` to the first optimizer step of any process: a status may be too late to tell."""
    steps = [one.origin_ns + one.window.step_ends_ns[0] for one in recordings if one.window is not None]
    return min(steps) / 1e9 - began if steps else None


def _reason(request: requests.Request, folder: Path, elapsed: float, startup_s: float | None) -> str:
    """Why the measurement is over although the command still runs, "" while it is not."""
    if request.keep_going:
        return ""
    if _probe_has_left(folder):
        return "probe"
    if next(folder.glob("bug-*"), None) is not None:
        return "bug"
    if startup_s is None and elapsed > request.startup_limit_s:
        return "startup_limit"
    if startup_s is not None and elapsed - startup_s > request.time_limit_s + requests.WHAT_IF_LIMIT_S + GRACE_S:
        return "time_limit"
    return ""


def _probe_has_left(folder: Path) -> bool:
    """Whether every process of the job on this machine has written a completed Recording and waits for its end."""
    markers = list(folder.glob("left-*"))
    return bool(markers) and len(markers) >= max(int(marker.read_text()) for marker in markers)


def write_manifest(collected: Collected, more: Mapping[str, Any]) -> None:
    """Write run.json: how the measurement went, for --load."""
    row = {
        "ended_by": collected.ended_by,
        "exit_code": collected.exit_code,
        "wall_s": collected.wall_s,
        "startup_s": collected.startup_s,
        "waiting_in": collected.waiting_in,
        **more,
    }
    artefacts.write_json(collected.folder / artefacts.MANIFEST, {**identity(), **row})
