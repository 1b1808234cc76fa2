"""What a process and all its descendants used so far, read again and again while they come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    import psutil


class Tree(Struct):
    """Running totals of the tree under process `pid`. A process that ended keeps its last reading.

    `cpu_s` and `read_bytes` miss what a process did between its last reading and its end; `rss_peak_bytes`
    is the largest sum of resident memory, in which a page shared by processes counts for each. None:
    nothing could be read.
    """

    pid: int
    rss_peak_bytes: int | None = None
    num_processes_peak: int = 0
    _cpu_s: dict[tuple[int, float], float] = field(default_factory=dict)
    _read_bytes: dict[tuple[int, float], int] = field(default_factory=dict)

    def read(self) -> None:
        """Take one reading of every process that is there now."""
        alive = _tree(self.pid)
        sizes = [size for process in alive if (size := self._read_one(process)) is not None]
        self.num_processes_peak = max(self.num_processes_peak, len(sizes))
        if sizes:
            self.rss_peak_bytes = max(self.rss_peak_bytes or 0, sum(sizes))

    @property
    def cpu_s(self) -> float | None:
        """CPU seconds, user and system."""
        return sum(self._cpu_s.values()) if self._cpu_s else None

    @property
    def read_bytes(self) -> int | None:
        """Bytes that came from storage, not from the page cache; None where nobody counts them."""
        return sum(self._read_bytes.values()) if self._read_bytes else None

    def _read_one(self, process: psutil.Process) -> int | None:
        """Resident bytes of `process`, or None when it vanished or hides."""
        import psutil  # of the extra "train": what reads a stored run does without

        try:
            key = process.pid, process.create_time()
            with process.oneshot():
                times, memory = process.cpu_times(), process.memory_info()
        except psutil.Error:
            return None
        self._cpu_s[key] = times.user + times.system
        read = _bytes_read(process)
        if read is not None:
            self._read_bytes[key] = read
        return int(memory.rss)


def _tree(pid: int) -> list[psutil.Process]:
    import psutil

    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.Error:
        return []


def _bytes_read(process: psutil.Process) -> int | None:
    """Bytes read from storage. macOS has no such counter, and other users' processes do not tell."""
    import psutil

    try:
        return int(process.io_counters().read_bytes)
    except (psutil.Error, AttributeError):
        return None
