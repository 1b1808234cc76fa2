"""One measurement at a time on a machine: two that run at once would measure each other."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autotune.errors import BusyError, UsageError

WRITE_TRIES, WRITE_S = 5, 0.02
_AROUND = "Wait for it to end, or measure at the same time with --no-lock: both will then be less reliable."


@contextmanager
def one_measurement(what: str, folder: Path | None = None, job: str = "") -> Iterator[None]:
    """Hold this user's measurement lock; `what` (a script's name, no arguments) tells others who holds it.

    Where the holder measures other ranks of the same `job` on this machine, the two are one measurement: this one goes
    on beside it without a lock of its own.

    The system gives the lock back when this process ends in any way, so a file that was left behind is no
    obstacle. Processes that this one starts do not inherit it. Raises BusyError when another measurement
    holds the lock, UsageError when the lock file cannot be opened.
    """
    import fcntl  # no Windows has it

    path = (folder or lock_folder()) / f"autotune-{os.getuid()}.lock"
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _settled_holder(descriptor)
            if not job or holder.get("job") != job:
                raise _busy(holder, path) from None
            yield
            return
        _write(descriptor, {"pid": os.getpid(), "started": time.time(), "what": what, "job": job})
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
            # A process that is just being started keeps the descriptor until its exec: closing is not enough.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def lock_folder() -> Path:
    """Where the lock file is: the user's runtime folder, else the temporary one.

    Not taken from TMPDIR or XDG_RUNTIME_DIR where it can be helped: they differ between the jobs and shells
    of one user, which would then not see each other.
    """
    for folder in (Path(f"/run/user/{os.getuid()}"), Path("/tmp")):
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path(tempfile.gettempdir())


def _open(path: Path) -> int:
    # O_NOFOLLOW: in a folder that everybody writes to, a planted link must not make us write elsewhere.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    except OSError as error:
        raise UsageError(
            f"the measurement lock cannot be opened: {error.strerror}",
            where=str(path),
            to_do="Remove that file, or measure without the lock: --no-lock.",
        ) from error


def _write(descriptor: int, holder: dict[str, Any]) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)


def _holder(descriptor: int) -> dict[str, Any]:
    """What the holder wrote; empty while it has the lock but has not written yet."""
    try:
        holder = json.loads(os.pread(descriptor, 65536, 0))
    except (ValueError, RecursionError):
        return {}
    return holder if isinstance(holder, dict) else {}


def _settled_holder(descriptor: int) -> dict[str, Any]:
    """What the holder wrote: it has the lock a moment before it writes."""
    for _ in range(WRITE_TRIES):
        if holder := _holder(descriptor):
            return holder
        time.sleep(WRITE_S)
    return {}


def _busy(holder: dict[str, Any], path: Path) -> BusyError:
    started, what, pid = holder.get("started"), holder.get("what"), holder.get("pid")
    who = ""
    if isinstance(what, str) and isinstance(pid, int):
        who = f" ({what}, process {pid}{_since(started)})"
    return BusyError(f"another measurement runs on this machine{who}", where=str(path), to_do=_AROUND)


def _since(started: object) -> str:
    """When the holder began; "" for what is no moment that this system can tell."""
    if not isinstance(started, int | float):
        return ""
    try:
        return f" since {time.strftime('%H:%M:%S', time.localtime(started))}"
    except (OverflowError, ValueError, OSError):
        return ""
