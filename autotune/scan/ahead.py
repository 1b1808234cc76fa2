"""Work that other processes do ahead: copies of this one, which know all that it knows and change nothing in it."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from io import BytesIO
from typing import BinaryIO

PIPE_BYTES = 1 << 20
"""What a process may be ahead, where the system allows it."""

SIZE_BYTES = 8
"""The size of a result stands before it, in as many bytes."""


def num_cpus() -> int:
    """The CPUs that this process may use; 1 where no process can be copied."""
    if not hasattr(os, "fork"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def results(jobs: Sequence[Callable[[], bytes]], num_processes: int) -> Generator[bytes, None, None]:
    """What each job gives, in their order; nothing of a job that fails, or whose process does.

    The processes end with the iterator.
    """
    readers: list[BinaryIO] = []
    children: list[int] = []
    try:
        for number in range(num_processes):
            child, reader = _start(jobs[number::num_processes], readers)
            children += [child] if child else []
            readers.append(reader)
        for place in range(len(jobs)):
            yield _read(readers[place % num_processes])
    finally:
        for reader in readers:
            reader.close()
        for child in children:
            with suppress(OSError):  # where the system reaps children itself, it is gone
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _start(jobs: Sequence[Callable[[], bytes]], others: Sequence[BinaryIO]) -> tuple[int, BinaryIO]:
    """A process that does these jobs, and what it writes; 0 and nothing where the system allows no more of them."""
    try:
        reader, writer = os.pipe()
    except OSError:
        return 0, BytesIO()
    _widen(writer)
    try:
        child = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return 0, BytesIO()
    if child:
        os.close(writer)
        return child, os.fdopen(reader, "rb")
    try:  # in the copy
        gc.freeze()  # collections of the copy pass over all that it has got, and copy it in memory
        for one in others:
            one.close()
        os.close(reader)
        with os.fdopen(writer, "wb") as written:
            for job in jobs:
                data = _done(job)
                written.write(len(data).to_bytes(SIZE_BYTES, "big") + data)
                written.flush()
    finally:
        os._exit(0)  # nothing of what the original has open is written twice


def _done(job: Callable[[], bytes]) -> bytes:
    try:
        return job()
    except Exception:
        return b""  # the original comes to the same and says so


def _read(reader: BinaryIO) -> bytes:
    size = int.from_bytes(reader.read(SIZE_BYTES), "big")
    data = reader.read(size)
    return data if len(data) == size else b""  # its process was killed meanwhile


def _widen(pipe: int) -> None:
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        pass  # another system, or a user with too many pipes
