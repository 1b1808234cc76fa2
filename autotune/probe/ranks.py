"""Which of how many processes of a job this one is, and how many of them are on this machine."""

from __future__ import annotations

import os
import sys
from posix import uname

LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
"""Set by torchrun and accelerate, deepspeed, Open MPI, MPICH."""

LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")


class Ranks:
    """What torch.distributed says once it is initialised, else what the launcher put into the environment.

    The answer of torch.distributed is kept, because scripts take it down before they end, and announced to the other
    ranks in `run_dir`: processes that the script started itself know of no number of ranks on this machine.
    """

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self.clear()

    def clear(self) -> None:
        """Forget: a forked child is another rank."""
        self._seen: tuple[int, int] | None = None

    def look(self) -> None:
        """Ask torch.distributed, unless it has answered."""
        distributed = sys.modules.get("torch.distributed")
        if self._seen is not None or distributed is None or not distributed.is_available():
            return
        if distributed.is_initialized():
            rank, size = distributed.get_rank(), distributed.get_world_size()
            self._seen = (rank, size)
            self._announce(size)

    @property
    def world_size(self) -> int:
        """Processes of the job."""
        self.look()
        return self._seen[1] if self._seen is not None else _number(("WORLD_SIZE",)) or 1

    @property
    def rank(self) -> int:
        """Number of this process in the job."""
        self.look()
        return self._seen[0] if self._seen is not None else _number(("RANK",)) or 0

    @property
    def local_world_size(self) -> int | None:
        """Processes of the job on this machine, None when nothing tells.

        The launcher's word counts while it speaks of the same job. Without it the whole job is here when it has one
        process, meets at a loopback address, or when so many processes announced themselves from here.
        """
        size = self.world_size
        said = _number(LOCAL_SIZES)
        if said is not None and (_number(("WORLD_SIZE",)) or size) == size:
            return said
        is_here = size == 1 or os.environ.get("MASTER_ADDR") in LOOPBACK or self.num_announced() == size
        return size if is_here else None

    @property
    def local_rank(self) -> int | None:
        """Number of this process on this machine, None when nothing tells."""
        size, said = self.world_size, _number(LOCAL_RANKS)
        if said is not None and said < (self.local_world_size or size):
            return said
        return self.rank if self.local_world_size == size else None

    def num_leaving(self) -> int:
        """So many processes of this job will say on this machine that they are done."""
        return max(self.local_world_size or 1, self.num_announced())

    def row(self) -> dict[str, int | None]:
        """The four numbers as the Recording has them."""
        return {name: getattr(self, name) for name in ("rank", "local_rank", "world_size", "local_world_size")}

    def num_announced(self) -> int:
        """Living processes of a job of this size on this machine, by their files in the run folder."""
        prefix = f"rank-{uname().nodename}-{self.world_size}-"
        names = [name for name in os.listdir(self._run_dir) if name.startswith(prefix)]
        return sum(1 for name in names if _is_alive(int(name[len(prefix) :])))

    def _announce(self, size: int) -> None:
        path = os.path.join(self._run_dir, f"rank-{uname().nodename}-{size}-{os.getpid()}")
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _number(names: tuple[str, ...]) -> int | None:
    """The first of these variables that holds a number; None without one."""
    values = [os.environ.get(name, "") for name in names]
    return next((int(value) for value in values if value.isdecimal()), None)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
