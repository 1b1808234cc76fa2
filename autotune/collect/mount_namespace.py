"""Starts a command in a mount namespace of its own, in which the planned overlays cover the real folders.

    python -I -S mount_namespace.py PLAN FAILURE WORD...

PLAN is the JSON of an `OverlayPlan` (overlay_plan.py), with "lc_ctype" as the environment has it or null. The command
takes the place of this process. When a step fails, nothing is started: the file FAILURE says {"step", "errno", "text"},
and this process ends with exit code 71. Where the kernel refuses an overlay that no protected folder needs, the folder
stays real, and FAILURE says {"refused": [folder]} of a command that was started.

It runs as a script, in the Python of autotune, with the standard library alone. Without privileges the namespaces are
those of a user namespace that maps an ordinary user to itself; exec takes the capabilities of that namespace away.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

FAILED = 71
"""Exit code of a start that did not take place: EX_OSERR."""

PLACE = "mount-namespace"
"""In the run folder: the boot of the kernel, the namespace of process numbers, the number of the process that entered,
and the namespace of mounts. The probe of a process that is neither there nor below it knows that these mounts do not
hold it: a launcher's daemon (srun) started it. Numbers of namespaces are those of one boot of one kernel."""

BOOT = "/proc/sys/kernel/random/boot_id"

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _SLAVE = 1, 32, 4096, 16384, 1 << 19
_KEPT = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
"""Flags of a mount that a user namespace may not take away; mount(2) and statvfs(3) give them the same numbers."""
_DETACH = 2
_USER_OPTIONS = (",userxattr",)
"""Without privileges an overlay keeps its marks in user.* attributes."""
_PRIVILEGED_OPTIONS = (",redirect_dir=on,metacopy=on", ",redirect_dir=on")
"""Tried in this order. redirect_dir: renaming an existing folder; without privileges the kernel answers EXDEV, as it
does between file systems. metacopy (Linux 4.19): changing only the mode, owner or name of a file copies no data.
"""

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
    place = os.open(os.path.join(os.path.dirname(failure_file), PLACE), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    _restore(plan["lc_ctype"])
    # When autotune is killed nobody else ends the command. It goes on through exec (prctl(2), PR_SET_PDEATHSIG).
    _libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    try:
        refused = _enter(plan)
        if refused:
            os.write(failure, json.dumps({"refused": refused}).encode())
        os.write(place, _place().encode())
        _step(f"start {words[0]}", lambda: os.execvp(words[0], words))
    except _StepFailedError as error:
        row = {"step": error.step, "errno": error.code, "text": os.strerror(error.code)}
    except Exception as error:  # nobody would tell it from a failure of the command
        row = {"step": "prepare the start", "errno": 0, "text": f"{type(error).__name__}: {error}"}
    os.ftruncate(failure, 0)
    os.pwrite(failure, json.dumps(row).encode(), 0)
    sys.exit(FAILED)


def _place() -> str:
    """Empty where the system does not tell; the probe then takes the process as not isolated."""
    try:
        with open(BOOT, encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')} {os.getpid()} {os.readlink('/proc/self/ns/mnt')}"
    except OSError:
        return ""


def _restore(lc_ctype: str | None) -> None:
    """Take back what this interpreter did: it coerces the C locale (PEP 538), and ignores two signals."""
    if lc_ctype is not None:
        os.environ["LC_CTYPE"] = lc_ctype
    else:
        os.environ.pop("LC_CTYPE", None)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _enter(plan: dict[str, Any]) -> list[str]:
    """Returns the folders over which the kernel refused an overlay."""
    cwd, user, group = os.getcwd(), os.geteuid(), os.getegid()
    is_user = plan["user_namespace"]
    _check("make the namespace", _libc.unshare(_NEW_MOUNTS | (_NEW_USER if is_user else 0)))
    if is_user:
        _step("map the user", lambda: _map(user, group))
    _mount("keep mounts to itself", None, "/", None, _RECURSIVE | _SLAVE)
    refused = _mount_all(plan["mounts"], _USER_OPTIONS if is_user else _PRIVILEGED_OPTIONS)
    if plan["stage"]:
        _step("change the root", lambda: _change_root(plan["stage"]))
    _step(f"enter {cwd}", lambda: os.chdir(cwd))
    return refused


def _mount_all(rows: list[dict[str, Any]], options: tuple[str, ...]) -> list[str]:
    """Mount `rows`; returns the folders that stay real instead.

    All are opened before the first mount covers one: what is mounted is always the real folder. That takes descriptors.
    """
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # the hard limit is above what the system allows meanwhile
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    try:
        sources = [_opened(row, options) for row in rows]
        return [row["lower"] for row, source in zip(rows, sources, strict=True) if not _mount_row(row, source, options)]
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def _opened(row: dict[str, Any], options: tuple[str, ...]) -> list[str]:
    """What a row mounts, as paths of descriptors: the real folder, and of an overlay its three layers.

    Nothing where it was deleted since the plan was made; the folder alone where no overlay can be made over it.
    """
    real = row["source"] if row["kind"] == "bind" else row["lower"]
    if not os.path.lexists(real):
        return []
    opened = _opened_path(real)
    if row["kind"] == "bind":
        return [opened]
    try:
        lower = _overlay_below(row["below"], opened, options) if row["below"] else opened
        return [opened, lower, _opened_path(row["upper"]), _opened_path(row["work"])]
    except _StepFailedError:
        if row["is_needed"]:
            raise
        return [opened]


def _opened_path(path: str) -> str:
    return f"/proc/self/fd/{_step(f'open {path}', lambda: os.open(path, os.O_PATH))}"


def _mount_row(row: dict[str, Any], source: list[str], options: tuple[str, ...]) -> bool:
    """Whether the row is mounted as planned; False where a folder stays real instead."""
    at = row["at"]
    if not source:
        return True
    if row["kind"] == "bind":
        _bind(at, source[0], row["read_only"])
        return True
    if len(source) > 1:
        try:
            _overlay(at, source[1:], options)
            return True
        except _StepFailedError:
            if row["is_needed"]:
                raise
    _bind(at, source[0], False)
    return False


def _bind(at: str, source: str, is_read_only: bool) -> None:
    _mount(f"bind {at}", source, at, None, _BIND | _RECURSIVE)
    if is_read_only:
        kept = _step(f"look at {at}", lambda: os.statvfs(at)).f_flag & _KEPT
        _mount(f"protect {at}", None, at, None, _BIND | _REMOUNT | _READ_ONLY | kept)


def _overlay(at: str, layers: list[str], options: tuple[str, ...]) -> None:
    lower, upper, work = layers
    data = [f"lowerdir={lower},upperdir={upper},workdir={work}{more}" for more in options]
    for words in data[:-1]:
        with suppress(_StepFailedError):
            _mount("", "overlay", at, "overlay", 0, words)
            return
    _mount(f"overlay {at}", "overlay", at, "overlay", 0, data[-1])


def _overlay_below(folder: str, lower: str, options: tuple[str, ...]) -> str:
    """A read-only overlay over `lower` alone: in another file system the scratch does not lie below it.

    The kernel wants two lower layers for it; the second is an empty folder.
    """
    _mount(f"make {folder}", "tmpfs", folder, "tmpfs", 0, "mode=700")
    for path in (f"{folder}/empty", f"{folder}/real"):
        _step(f"make {path}", partial(os.mkdir, path))
    more = options[0] if options is _USER_OPTIONS else ""
    data = f"lowerdir={lower}:{folder}/empty{more}"
    _mount(f"overlay below {folder}", "overlay", f"{folder}/real", "overlay", 0, data)
    return _opened_path(f"{folder}/real")


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
