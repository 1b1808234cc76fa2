"""Reading files that a project names: regular files only, never through a link, never blocking, never without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 28
"""256 MiB: what a Recording of many thousand steps may have, and no memory dies of."""


_FLAGS = sum(getattr(os, name, 0) for name in ("O_RDONLY", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
"""Those of this system: Windows lacks the second and third, and it alone has the last."""


def read(path: str | Path, *, follow: bool = False, most_bytes: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file. `follow` a last symbolic link: only where the user named the path.

    Raises OSError with the system's reason, or with one of ours: EINVAL for what is no regular file, ELOOP for a link,
    EFBIG for more than `most_bytes`.
    """
    if not follow and stat.S_ISLNK(os.lstat(path).st_mode):
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path))
    _check_regular(Path(path).stat(), path)  # opening a device may do something
    # It may have become another one meanwhile; and opening a FIFO that nobody writes to would wait for ever.
    descriptor = os.open(path, _FLAGS if follow else _FLAGS | getattr(os, "O_NOFOLLOW", 0))
    try:
        about = os.fstat(descriptor)
        _check_regular(about, path)
        if about.st_size > most_bytes:
            raise _too_large(path, most_bytes)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > most_bytes:
        raise _too_large(path, most_bytes)
    return data


def _check_regular(about: os.stat_result, path: str | Path) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def _too_large(path: str | Path, most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than the {most_bytes:,} bytes that are read", str(path))


def may_hold_project(folder: Path, start: Path) -> bool:
    """Whether a folder above `start` may be taken for its project: it belongs to this user or to the owner of `start`,
    and nobody else may write it. A group of the owner's own name counts as the owner (umask 002).

    False on Windows, where neither can be told.
    """
    if not hasattr(os, "geteuid"):
        return False
    try:
        about, first = folder.stat(), start.stat()
    except OSError:
        return False
    if about.st_uid not in (os.geteuid(), first.st_uid) or about.st_mode & stat.S_IWOTH:
        return False
    return not about.st_mode & stat.S_IWGRP or _is_private(about.st_uid, about.st_gid)


def _is_private(user: int, group: int) -> bool:
    import grp  # neither is on every system
    import pwd

    try:
        found = grp.getgrgid(group)
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        return user == group
    return found.gr_name == name and set(found.gr_mem) <= {name}
