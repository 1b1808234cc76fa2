"""What processes leave in shared memory."""

from __future__ import annotations

import contextlib
import glob
import os
import time

FOLDER = "/dev/shm"
"""Where Linux keeps named shared memory and semaphores."""

SETTLED_S = 5.0
"""A name that is neither mapped nor removed for this long has been left."""


def names() -> set[str]:
    """What is in shared memory now."""
    return set(os.listdir(FOLDER))


def left(before: set[str]) -> set[str]:
    """What is new since `before` and mapped by no process: tests run beside each other; what is mapped is in use."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        mapped = _mapped()
        found = {name for name in names() - before if _inode(name) not in mapped}
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def _inode(name: str) -> int | None:
    try:
        return os.stat(os.path.join(FOLDER, name)).st_ino
    except FileNotFoundError:
        return None


def _mapped() -> set[int | None]:
    """The inodes that processes have mapped (a semaphore is mapped under another name), and None for what is gone."""
    found: set[int | None] = {None}
    for maps in glob.glob("/proc/[0-9]*/maps"):
        with contextlib.suppress(OSError), open(maps) as lines:
            found |= {int(line.split()[4]) for line in lines if FOLDER in line}
    return found
