"""What all processes of a run know at once about the overlay."""

from __future__ import annotations

import posix
import time

from ..early_imports import import_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap


class Shared:
    """Nine bytes that all processes of the run map: was anything redirected (0 or 1), and the state's version.

    Reading one byte costs nanoseconds; that is the whole price of the overlay until the first redirected write.
    """

    def __init__(self, path: str) -> None:
        descriptor = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
        try:
            posix.ftruncate(descriptor, 9)
            self.view: mmap = import_early("mmap").mmap(descriptor, 9)
        finally:
            posix.close(descriptor)

    @property
    def version(self) -> bytes:
        return self.view[1:9]

    def bump(self) -> None:
        """Say that a path now means something else: what was remembered about paths is void."""
        self.view[1:9] = time.monotonic_ns().to_bytes(8, "little")
        self.view[0] = 1
