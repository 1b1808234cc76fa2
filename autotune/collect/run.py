"""One measurement from start to end: the child, its limits, its Recordings."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.collect import (
    artefacts,
    command,
    isolation,
    mount_namespace,
    progress,
    stale_runs,
    startup_notes,
    stderr_tail,
)
from autotune.collect import request as requests
from autotune.collect.isolation import SideEffects
from autotune.collect.job_logs import FileId, printed_into
from autotune.collect.load_recordings import load
from autotune.errors import ScriptError
from autotune.machine import MachineSampler, MachineSamples, connect_nvml, identity
from autotune.machine.job import Image, Interpreter, ProcessRecord, end_job, member_pids, start_job, uninjected
from autotune.machine.signals import check_interrupted, terminate_on_signal
from autotune.model.recording import Recording, StartUp
from autotune.model.source import NOTEBOOK

POLL_S = 0.1
GRACE_S = 45.0
"""After the window's own time limit: what-ifs, writing, and a training thread that is deep inside a kernel."""

Hold = Callable[[int], AbstractContextManager[None]]
"""Holds the process group of a start until that is to end."""


class EarlyException(Struct, frozen=True):
    """The exception that ended a Python process before torch came: its type, the module that a ModuleNotFoundError
    misses ("" of others), and the interpreter."""

    type: str
    module: str
    python: str


class Collected(Struct, frozen=True):
    """What one measurement brought. `ended_by`: probe | script | bug | startup_limit | time_limit |
    not_injected.

    `startup_s` is from the start to the first optimizer step (None: never), `exit_code` the command's own.
    `waiting_in` is where the training thread was last seen before its first step, `bugs` the notes (type and frames)
    of processes that the probe ended because it failed itself, `raised` what ended the last process that an exception
    ended before torch came. `startup` is what the process did until its first step, as it noted it while it ran. `said`
    are the last lines that the command wrote to stderr, where that went into a file. `printed` are the plain files into
    which its processes printed. `pid` is the process that was
    started, the first of its group. `effects` is what became of the script's writes.
    """

    folder: Path
    recordings: tuple[Recording, ...]
    ended_by: str
    exit_code: int | None
    wall_s: float
    startup_s: float | None
    sampled: MachineSamples | None
    waiting_in: str = ""
    bugs: tuple[str, ...] = ()
    raised: EarlyException | None = None
    startup: StartUp | None = None
    said: str = ""
    printed: frozenset[FileId] = frozenset()
    pid: int | None = None
    effects: SideEffects = field(default_factory=SideEffects)


OnLeft = Callable[[Collected], None]
"""Called where the probe has left a command that goes on (`keep_going`)."""


def isolation_gaps(pid: int) -> AbstractContextManager[None]:
    """Lets it go on."""
    return nullcontext()


def collect(
    request: requests.Request,
    words: command.PlannedCommand,
    folder: Path,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    show: Callable[[progress.Status], None],
    stdout: int | None = None,
    stderr: Path | None = None,
    hold: Hold = isolation_gaps,
    protected: Path | None = None,
    on_left: OnLeft = lambda collected: None,
) -> Collected:
    """Run the command with the probe until the window is over; `show` gets the live status.

    With `keep_going` the command goes on then: `on_left` gets what was collected, and this returns when it has ended,
    with its exit code.
    `protected` is a folder that the script owns beside its own and the working folder's project.
    `stdout` is a file descriptor for the child's output (None: inherited), `stderr` a file for its messages; `hold` may
    stop its process group now and then. A Python process that starts without the probe (-I, a PYTHONPATH of the
    script's own, env -i) ends the command before torch is imported, and is then started by us with the probe. On any
    way out, Ctrl-C and SIGTERM included, the whole process tree is ended and scratch is deleted.
    """
    cwd, environ = words.cwd or cwd, {**environ, **words.variables}
    if words.script is not None and words.script.suffix == NOTEBOOK:
        request = replace(request, notebook=Path(os.path.normpath(words.script)))
    roots = (*_roots(words, cwd), *([protected] if protected is not None else []))
    artefacts.write_json(folder / artefacts.MANIFEST, {**identity(), "command": list(words.argv[:1])})
    job = LaunchSpec(request, folder, roots, show, (stdout, stderr), hold, environ, on_left)
    result = _collected(job, StartRecord(words.argv, str(cwd), environ))
    return result if stderr is None else replace(result, said=stderr_tail.last_lines(stderr))


_Output = tuple[int | None, Path | None]


class LaunchSpec(Struct, frozen=True):
    """What stays the same however often the command has to be started."""

    request: requests.Request
    folder: Path
    roots: tuple[Path, ...]
    show: Callable[[progress.Status], None]
    output: _Output
    hold: Hold
    environ: Mapping[str, str]
    on_left: OnLeft


class StartRecord(Struct, frozen=True):
    argv: tuple[str, ...]
    cwd: str
    environ: Mapping[str, str]


class NamespaceFailed(Struct, frozen=True):
    """The kernel refused a step of the namespace: nothing was started."""

    why: str


def _collected(job: LaunchSpec, began: StartRecord) -> Collected:
    """Start it; again with hooks where the kernel layer is refused, and once more where a process lost the probe."""
    refused, is_injected, seen = "", False, SideEffects()
    while True:
        result, effects = _attempt(job, began, refused)
        seen = isolation.added(seen, effects)
        if isinstance(result, Collected):
            return replace(result, effects=seen)
        if isinstance(result, NamespaceFailed):
            refused = result.why
        elif is_injected:
            return Collected(job.folder, (), "not_injected", None, 0.0, None, None, effects=seen)
        else:
            is_injected = True
            began = StartRecord(command.injected(result.argv), result.cwd, result.environ)


def _attempt(
    job: LaunchSpec, began: StartRecord, refused: str
) -> tuple[Collected | Interpreter | NamespaceFailed, SideEffects]:
    """One start, and what it left behind. An Interpreter is the process of the job that had no probe."""
    with terminate_on_signal():
        try:
            held = None if job.request.keep_going else isolation.choose(job.folder, job.roots, job.environ, refused)
            settings = held.settings if held is not None else None
            path = requests.write(job.request, job.folder, settings, job.environ)
            stale_runs.make_sockets(job.folder)
            front = held.words(job.folder) if held is not None else ()
            environ = command.environment(began.environ, path)
            child = start_job(lambda: _start(StartRecord((*front, *began.argv), began.cwd, environ), job.output))
            try:
                with job.hold(child.pid):
                    result = _watch(job, child)
            finally:
                ended = end_job(child.pid, job.folder)
                child.wait()
            if front and child.returncode == mount_namespace.FAILED and isinstance(result, Collected):
                return _refusal(job.folder, result), SideEffects()
            printed = result.printed if isinstance(result, Collected) else frozenset()
            return result, SideEffects() if held is None else isolation.effects(held, ended, printed)
        finally:
            stale_runs.remove_scratch(job.folder)


def _refusal(folder: Path, result: Collected) -> Collected | NamespaceFailed:
    """Why the command was not started in the namespace; the command's own exit code may be the same by chance."""
    failed = isolation.failure(folder)
    if failed is None:
        return result
    step, number, text = failed
    if step.startswith("start "):
        raise ScriptError(
            f"it cannot be started: {text}", where=step[len("start ") :], to_do="Check the path and its permissions."
        )
    return NamespaceFailed(f"the kernel refused it ({step}: {text or f'error {number}'})")


def _start(began: StartRecord, output: _Output) -> subprocess.Popen[bytes]:
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


def _roots(words: command.PlannedCommand, cwd: Path) -> tuple[Path, ...]:
    """Folders that the script owns: the project, the working folder and the script's own."""
    script = [words.script.resolve().parent] if words.script is not None else []
    return tuple(dict.fromkeys([artefacts.project_root(cwd), cwd, *script]))


def _watch(job: LaunchSpec, child: subprocess.Popen[bytes]) -> Collected | Interpreter:
    collected = _until_over(job, child)
    if job.request.keep_going and isinstance(collected, Collected) and collected.ended_by == "probe":
        left = time.monotonic()
        try:
            job.on_left(collected)
        finally:  # whatever becomes of the report, the training is the user's
            code = _end_of(child)
        return replace(collected, exit_code=code, wall_s=collected.wall_s + time.monotonic() - left)
    return collected


def _end_of(child: subprocess.Popen[bytes]) -> int:
    """Wait for it; its exit code."""
    while (code := child.poll()) is None:
        check_interrupted()
        time.sleep(POLL_S)
    return code


def _until_over(job: LaunchSpec, child: subprocess.Popen[bytes]) -> Collected | Interpreter:
    request, folder = job.request, job.folder
    began, startup_s = time.monotonic(), None
    printed: frozenset[FileId] = frozenset()
    pythons: dict[Image, ProcessRecord] = {}
    with MachineSampler(child.pid, library=connect_nvml()[0]) as sampler:
        while True:
            check_interrupted()
            code = child.poll()
            elapsed = time.monotonic() - began
            seen = progress.read(folder, elapsed)
            if startup_s is None and seen.steps:
                startup_s, printed = elapsed, printed_into(member_pids(child.pid))
            reason = _reason(request, folder, elapsed, startup_s) or ("script" if code is not None else "")
            if reason:
                printed |= printed_into(member_pids(child.pid))
                break
            bare = uninjected(child.pid, folder, pythons)
            if bare is not None:
                return bare
            job.show(seen)
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
        printed=printed,
        pid=child.pid,
        bugs=tuple(note.read_text("utf-8", "replace") for note in sorted(folder.glob("bug-*"))),
        raised=_raised(folder),
        startup=startup_notes.read(folder),
    )


def _raised(folder: Path) -> EarlyException | None:
    notes = sorted(folder.glob("raised-*"), key=lambda note: note.stat().st_mtime_ns)
    lines = notes[-1].read_text("utf-8", "replace").split("\n") if notes else []
    return EarlyException(*lines[:3]) if len(lines) > 2 and lines[0] else None


def _first_step_s(recordings: tuple[Recording, ...], began: float) -> float | None:
    """Seconds from `began` to the first optimizer step of any process: a status may be too late to tell."""
    steps = [one.origin_ns + one.window.step_ends_ns[0] for one in recordings if one.window is not None]
    return min(steps) / 1e9 - began if steps else None


def _reason(request: requests.Request, folder: Path, elapsed: float, startup_s: float | None) -> str:
    """Why the measurement is over although the command still runs, "" while it is not."""
    if _probe_has_left(folder):
        return "probe"
    if request.keep_going:
        return ""
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
    """Write run.json: how the measurement went, for `report`."""
    row = {
        "ended_by": collected.ended_by,
        "exit_code": collected.exit_code,
        "wall_s": collected.wall_s,
        "startup_s": collected.startup_s,
        "waiting_in": collected.waiting_in,
        **more,
    }
    artefacts.write_json(collected.folder / artefacts.MANIFEST, {**identity(), **row})
