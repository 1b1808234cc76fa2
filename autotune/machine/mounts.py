"""The mount table of this process, from /proc/self/mountinfo (format: proc_pid_mountinfo(5))."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from autotune.machine import proc_files

_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(Struct, frozen=True):
    """One mounted file system. `root` is the folder of that file system which is seen at `mount_point`.

    `options` are those of the file system itself: a cgroup v1 hierarchy names its controllers there.
    """

    root: str
    mount_point: str
    type: str
    device: str
    options: tuple[str, ...] = ()


def mounts(root: Path = Path("/")) -> tuple[Mount, ...]:
    """All mounts in the order of mounting; empty when there is no mountinfo (not Linux)."""
    lines = (proc_files.text(root / "proc/self/mountinfo") or "").splitlines()
    return tuple(mount for line in lines if (mount := parse(line)) is not None)


def parse(line: str) -> Mount | None:
    """The Mount in one line of mountinfo, or None when the line is not one.

    Between the mount options and " - " stand any number of optional fields, so the line is cut there first.
    """
    left, separator, right = line.partition(" - ")
    fields, tail = left.split(" "), right.split(" ")
    if not separator or len(fields) < 6 or len(tail) < 2:
        return None
    options = tuple(tail[2].split(",")) if len(tail) > 2 else ()
    return Mount(unescape(fields[3]), unescape(fields[4]), tail[0], unescape(tail[1]), options)


def unescape(field: str) -> str:
    r"""The kernel writes space, tab, newline, backslash and "#" as three octal digits: "\040" is a space."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), field)
