"""A window of the probe in a process that runs: its own Python is asked to load it (PEP 768, Python 3.14 and later).

`sys.remote_exec` is called by an interpreter of the same version, which is the process's own program, as its user.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from autotune import reading
from autotune.attach import access
from autotune.attach.target import ENDED, NEXT_START, Target, has_ended
from autotune.collect import artefacts
from autotune.machine import other_process
from autotune.model.attached import AttachedWindow, Tier
from autotune.model.watched import WatchedProcess

PROBE = Path(__file__).parents[1] / "probe"
ASKS = (3, 14)
LEAST_STEPS, LEAST_S = 20, 0.5
LIMIT_S, REACH_S, SLACK_S = 120.0, 20.0, 10.0
"""Of the window; until the main thread runs Python again; until the answer is written once the time is up."""

ANSWER = "attach.json"
MOST_BYTES = 4_000_000
POLL_S = 0.1

CALL = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
BEGIN = """\
def _autotune_window():
    import _thread
    import time

    load, package, asked, until, began = {arguments!r}

    def is_meant():
        # Its number may be another process's by now: when that began, in ticks, is field 22 of proc_pid_stat(5).
        try:
            with open("/proc/self/stat", "rb") as file:
                return int(file.read().rpartition(b")")[2].split()[19]) == began
        except OSError:
            return False

    def run():
        try:
            names = {{"__name__": "_autotune_load"}}
            with open(load, encoding="utf-8") as file:
                exec(compile(file.read(), load, "exec"), names)
            names["attach"](package, asked)
        except BaseException as error:
            import json
            import os

            try:
                os.makedirs(asked["folder"], exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                with open(os.open(asked["folder"] + "/{answer}", flags, 0o644), "w", encoding="utf-8") as file:
                    json.dump({{"state": "failed", "why": type(error).__name__ + ": " + str(error)}}, file)
            except OSError:
                pass

    if time.time() < until and is_meant():
        _thread.start_new_thread(run, ())


_autotune_window()
"""
"""What the process runs, in its main thread; all else is done by the thread that it starts."""


class Asked(Struct, frozen=True):
    """Where the window is left: a folder that the process can write, and the time that it may take."""

    folder: Path
    limit_s: float


def measure(target: Target, limit_s: float = LIMIT_S) -> tuple[AttachedWindow | None, Tier]:
    """The window of a process, and what the report says of this tier."""
    why, to_do = _why_not(target)
    if why:
        return None, Tier("window", "refused", why, to_do)
    asked = Asked(_folder(target), limit_s)
    file = _begin_file(target, asked)
    refused = ENDED if has_ended(target) else _call(target, file)
    said = refused or _answer(asked, target)
    if refused or _read(asked.folder) is not None:  # else the process may still come to it, after its deadline
        file.unlink()
        file.parent.rmdir()
    if said:
        return None, Tier("window", "refused", said, NEXT_START)
    found = _window(asked.folder)
    if found is None:
        return None, Tier("window", "refused", f"it left no window in {asked.folder}", NEXT_START)
    few = ", which are few: they take long" if found.window.steps < LEAST_STEPS else ""
    return found, Tier("window", "used", f"{found.window.steps} steps{few}; its hooks are off")


def _why_not(target: Target) -> tuple[str, str]:
    """("", "") where it can be asked; else why not, and what to do."""
    about = target.about
    if about.python is None:
        return "which Python it runs is not known", NEXT_START
    if about.python < ASKS:
        version = ".".join(map(str, about.python))
        return f"its Python {version} cannot be asked: that begins with Python 3.14 (PEP 768)", NEXT_START
    if not about.has_torch:
        return "it has not loaded torch", NEXT_START
    if not target.is_own and os.geteuid() != 0:
        return "it belongs to another user", f"Run autotune as that user. {NEXT_START}"
    if _is_watched(target.environ):
        return "autotune watches or measures it already", "autotune watch says how it is doing."
    if _is_disabled(about.argv, target.environ):
        return "it was started with remote debugging disabled (PYTHON_DISABLE_REMOTE_DEBUG)", NEXT_START
    why, to_do = access.why_not(target)
    if why:
        return why, to_do
    if not about.same_files:
        return "it is in a container and sees other files than autotune", f"Run autotune in it. {NEXT_START}"
    return _why_not_with(about.exe)


def _why_not_with(exe: str | None) -> tuple[str, str]:
    """The same of the program that would be started to ask it."""
    if exe is None or not os.access(exe, os.X_OK):
        return "its program is no longer there to be asked with", NEXT_START
    if not other_process.is_interpreter(exe):
        return f"its program, {Path(exe).name}, is no interpreter of Python: to ask it would start it again", NEXT_START
    return "", ""


def _is_watched(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("AUTOTUNE_REQUEST")) or environ.get("AUTOTUNE_WATCH", "0") not in ("", "0")


def _is_disabled(argv: tuple[str, ...], environ: Mapping[str, str]) -> bool:
    return "PYTHON_DISABLE_REMOTE_DEBUG" in environ or "disable-remote-debug" in " ".join(argv[:8])


def _folder(target: Target) -> Path:
    """A run folder of the process's project, which the process makes; elsewhere where it may not write there."""
    about = target.about
    name = f"attach-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{target.pid}"
    root = artefacts.project_root(Path(about.cwd)) if about.cwd else None
    if root is not None and target.is_own and _is_only_ours(root):
        return root / ".autotune" / "watch" / name
    folder = Path(tempfile.mkdtemp(prefix="autotune-"))
    if not target.is_own:
        os.chown(folder, about.uid, -1)
    return folder / name


def _is_only_ours(root: Path) -> bool:
    """Whether nobody else can put a link where a run folder of this project is made."""
    places = (root, root / ".autotune", root / ".autotune" / "watch")
    there = [place for place in places if os.path.lexists(place)]
    return os.access(root, os.W_OK) and all(
        not place.is_symlink() and place.stat().st_uid == os.geteuid() and reading.may_hold_project(place, place)
        for place in there
    )


def _begin_file(target: Target, asked: Asked) -> Path:
    """The file that the process is to run, alone in a folder. After its deadline it does nothing."""
    folder = Path(tempfile.mkdtemp(prefix="autotune-"))
    file = folder / f"begin-{target.pid}.py"
    row = {
        "folder": str(asked.folder),
        "limit_s": asked.limit_s,
        "least_steps": LEAST_STEPS,
        "least_s": LEAST_S,
    }
    arguments = (str(PROBE / "load.py"), str(PROBE), row, time.time() + REACH_S, target.about.start_ticks)
    file.write_text(BEGIN.format(arguments=arguments, answer=ANSWER), encoding="utf-8")
    if not target.is_own:
        folder.chmod(0o755)
        file.chmod(0o644)
    return file


def _call(target: Target, file: Path) -> str:
    """Have the process run `file` as soon as its main thread can; "" or what its Python said against it.

    Never as root for another user: the program is theirs.
    """
    about = target.about
    as_user: dict[str, Any] = {} if target.is_own else {"user": about.uid, "group": about.gid, "extra_groups": []}
    words = [about.exe or "", "-I", "-S", "-c", CALL, str(target.pid), str(file)]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=REACH_S, check=False, **as_user
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"its Python cannot be started to ask it: {error}"
    if not done.returncode:
        return ""
    last = [line for line in done.stderr.splitlines() if line.strip()][-1:] or [f"exit code {done.returncode}"]
    return f"its Python refused: {last[0].strip()}"


def _answer(asked: Asked, target: Target) -> str:
    """Wait for the window: "" once it is there, else why there is none."""
    began = time.monotonic()
    while True:
        row = _read(asked.folder)
        state = row.get("state") if row is not None else None
        if state == "done":
            return ""
        if state in ("refused", "failed"):
            return f"{'it failed in the process: ' if state == 'failed' else ''}{(row or {}).get('why')}"
        if has_ended(target):
            return ENDED
        passed = time.monotonic() - began
        if state is None and passed > REACH_S:
            return f"its main thread ran no Python for {REACH_S:.0f} s, and the probe cannot be loaded otherwise"
        if passed > asked.limit_s + REACH_S + SLACK_S:
            return "it gave no answer in time; its hooks go off by themselves"
        time.sleep(POLL_S)


def _read(folder: Path) -> dict[str, Any] | None:
    """What it answered last; None before that. What it wrote is data of another process: anything may be in it."""
    try:
        row = json.loads(reading.read(folder / ANSWER, most_bytes=MOST_BYTES))
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) else None


def _window(folder: Path) -> AttachedWindow | None:
    """The window that it left."""
    for file in sorted(folder.glob("state-*.json")):
        try:
            state = msgspec.json.decode(reading.read(file, most_bytes=MOST_BYTES), type=WatchedProcess)
        except (OSError, msgspec.MsgspecError):
            continue
        measured = state.windows[-1] if state.windows else None
        if measured is not None and measured.phases_ms and measured.step_ms > 0:
            return AttachedWindow(measured, str(file))
    return None
