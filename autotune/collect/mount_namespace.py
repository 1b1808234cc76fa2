"""Starts a command in a mount namespace of its own, in which the planned overlays cover the real folders.

    python -I -S mount_namespace.py PLAN FAILURE WORD...

PLAN is the JSON of an `OverlayPlan` (overlay_plan.py), with "lc_ctype" as the environment has it or null. The command
takes the place of this process. When a step fails, nothing is started: the file FAILURE says {"step", "errno", "text"},
and this process ends with exit code 71.

It runs as a script, in the Python of autotune, with the standard library alone. Without privileges the namespaces are
those of a user namespace that maps the user to itself; the command then has no capability, as before.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

FAILED = 71
"""Exit code of a start that did not take place: EX_OSERR."""

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _SLAVE = 1, 32, 4096, 16384, 1 << 19
_DETACH = 2
_NEW_USER_OPTIONS = ",userxattr"
"""Without privileges an overlay keeps its marks in user.* attributes."""
_PRIVILEGED_OPTIONS = ",redirect_dir=on"
"""Renaming an existing folder; without privileges the kernel answers EXDEV, as it does between file systems."""

T = TypeVar("T")

_libc = ctypes.CDLL(None, use_errno=True)


class _StepFailedError(Exception):
    """`step` is what was tried."""

    def __init__(self, step: str, code: int) -> None:
        super().__init__(step)
        self.step, self.code = step, code


def main(plan_file: str, failure_file: str, words: list[str]) -> None:
    """Enter the namespace and start `words`; returns only when that failed."""
    with open(plan_file, encoding="utf-8", errors="surrogateescape") as file:
        plan = json.load(file)
    failure = os.open(failure_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    _restore(plan["lc_ctype"])
    # When autotune is killed nobody else ends the command. It goes on through exec (prctl(2), PR_SET_PDEATHSIG).
    _libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    try:
        _enter(plan)
        _step(f"start {words[0]}", lambda: os.execvp(words[0], words))
    except _StepFailedError as error:
        row = {"step": error.step, "errno": error.code, "text": os.strerror(error.code)}
    except Exception as error:  # nobody would tell it from a failure of the command
        row = {"step": "prepare the start", "errno": 0, "text": f"{type(error).__name__}: {error}"}
    os.write(failure, json.dumps(row).encode())
    sys.exit(FAILED)


def _restore(lc_ctype: str | None) -> None:
    """Take back what this interpreter did: it coerces the C locale (PEP 538), and ignores two signals."""
    if lc_ctype is not None:
        os.environ["LC_CTYPE"] = lc_ctype
    else:
        os.environ.pop("LC_CTYPE", None)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _enter(plan: dict[str, Any]) -> None:
    cwd, user, group = os.getcwd(), os.geteuid(), os.getegid()
    is_user = plan["user_namespace"]
    _check("make the namespace", _libc.unshare(_NEW_MOUNTS | (_NEW_USER if is_user else 0)))
    if is_user:
        _step("map the user", lambda: _map(user, group))
    _mount("keep mounts to itself", None, "/", None, _RECURSIVE | _SLAVE)
    # Opened before the first mount covers it: what is mounted is always the real folder.
    sources = [_opened(row) for row in plan["mounts"]]
    options = _NEW_USER_OPTIONS if is_user else _PRIVILEGED_OPTIONS
    for row, source in zip(plan["mounts"], sources, strict=True):
        _mount_row(row, source, options)
    if plan["stage"]:
        _step("change the root", lambda: _change_root(plan["stage"]))
    _step(f"enter {cwd}", lambda: os.chdir(cwd))


def _opened(row: dict[str, Any]) -> list[str]:
    """The descriptors of what a row mounts; none where it was deleted since the plan was made."""
    paths = [row["source"]] if row["kind"] == "bind" else [row["lower"], row["upper"], row["work"]]
    if not os.path.lexists(paths[0]):
        return []
    return [f"/proc/self/fd/{_opened_path(path)}" for path in paths]


def _opened_path(path: str) -> int:
    return _step(f"open {path}", lambda: os.open(path, os.O_PATH))


def _mount_row(row: dict[str, Any], source: list[str], options: str) -> None:
    at = row["at"]
    if not source:
        return
    if row["kind"] == "bind":
        _mount(f"bind {at}", source[0], at, None, _BIND | _RECURSIVE)
        if row["read_only"]:
            _mount(f"protect {at}", None, at, None, _BIND | _REMOUNT | _READ_ONLY)
    else:
        lower, upper, work = source
        data = f"lowerdir={lower},upperdir={upper},workdir={work}{options}"
        _mount(f"overlay {at}", "overlay", at, "overlay", 0, data)


def _map(user: int, group: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def _change_root(stage: str) -> None:
    os.chdir(stage)
    code = _libc.syscall(ctypes.c_long(_PIVOT_ROOT[os.uname().machine]), b".", b".")
    _check("pivot_root", code)
    _check("leave the old root", _libc.umount2(b".", _DETACH))


_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "s390x": 217, "riscv64": 41}


def _mount(step: str, source: str | None, at: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, at, kind, data)]
    code = _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    _check(step, code)


def _check(step: str, code: int) -> None:
    if code != 0:
        raise _StepFailedError(step, ctypes.get_errno())


def _step(step: str, action: Callable[[], T]) -> T:
    try:
        return action()
    except OSError as error:
        raise _StepFailedError(step, error.errno or 0) from error


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
