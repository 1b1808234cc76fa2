"""Which of how many processes of a job this one is, and how many of them are on this machine."""

from __future__ import annotations

import os
import sys
import time
from posix import uname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
"""Set by torchrun and accelerate, deepspeed, Open MPI, MPICH."""

SIZES = ("WORLD_SIZE",)
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
JOB_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
"""Set by launchers that start the processes of all machines: mpirun of Open MPI and of MPICH, srun."""

NO_ID = ("", "none")
"""What torchrun has where nobody named the run: it is of no use to tell one run from another."""

LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")


PATIENCE_S, BETWEEN_S = 2.0, 0.01
"""How long a rank waits for the others at the end of the window, which all of them reach together."""


class Ranks:
    """What torch.distributed says once it is initialised, else what the launcher put into the environment.

    The answer of torch.distributed is kept, because scripts take it down before they end, and announced to the other
    ranks in `run_dir`: processes that the script started itself know of no number of ranks on this machine.
    `inherited` are the variables of launchers that autotune itself was started with: these speak of autotune's
    processes, not of those that it started.
    """

    def __init__(self, run_dir: str, inherited: Sequence[str] = ()) -> None:
        self._run_dir = run_dir
        self._inherited = frozenset(inherited)
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

    def all_are_ready(self, is_ready: bool) -> bool:
        """Whether every rank of the job says so, each by a file in the folder of the run.

        What autotune asks of a rank must not be a collective: one without autotune would take it for its own. Ranks
        that write into other folders are never all ready.
        """
        mine, size = os.path.join(self._run_dir, f"ready-{self.rank}"), self.world_size
        try:
            with open(f"{mine}~", "w", encoding="ascii") as file:
                file.write(str(int(is_ready)))
            os.replace(f"{mine}~", mine)
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until:
                names = [os.path.join(self._run_dir, f"ready-{rank}") for rank in range(size)]
                if all(map(os.path.exists, names)):
                    return all(_read(name) == "1" for name in names)
                time.sleep(BETWEEN_S)
            os.unlink(mine)
        except OSError:  # the folder is gone: the parent was killed
            return False
        return False

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
        if (tasks := _tasks_here(size)) is not None:
            return tasks
        is_here = size == 1 or os.environ.get("MASTER_ADDR") in LOOPBACK or self.num_announced() == size
        return size if is_here else None

    @property
    def local_rank(self) -> int | None:
        """Number of this process on this machine, None when nothing tells."""
        size, said = self.world_size, _number(LOCAL_RANKS)
        if said is None and _tasks_here(size) is not None:
            said = _number(("SLURM_LOCALID",))
        if said is not None and said < (self.local_world_size or size):
            return said
        return self.rank if self.local_world_size == size else None

    def num_leaving(self) -> int:
        """So many processes will say to the autotune that started this one that they are done.

        Where a launcher above autotune made the ranks, each of them has an autotune of its own, or one that started
        those that announced themselves. Where mpirun or srun below autotune made them, all of the job have this one.
        """
        size = self.world_size
        is_below = any(_number((name,)) == size for name in JOB_SIZES if name not in self._inherited)
        own = [name for name in LOCAL_SIZES if name not in self._inherited and _number((name,)) is not None]
        is_above = not own and any(_number((name,)) == size for name in JOB_SIZES + SIZES if name in self._inherited)
        least = size if is_below else 1 if is_above else self.local_world_size or 1
        return max(least, self.num_announced())

    def row(self) -> dict[str, int | str | None]:
        """What the Recording has of them."""
        numbers = {name: getattr(self, name) for name in ("rank", "local_rank", "world_size", "local_world_size")}
        elastic_id = os.environ.get("TORCHELASTIC_RUN_ID", "")
        return {**numbers, "host": uname().nodename, "elastic_id": None if elastic_id in NO_ID else elastic_id}

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


def _tasks_here(size: int) -> int | None:
    """Tasks of a Slurm step on this node, where the step has as many tasks as the job has ranks.

    SLURM_STEP_TASKS_PER_NODE is "4(x2),3": 4 on each of the first two nodes, 3 on the next one.
    """
    node = _number(("SLURM_NODEID",))
    if node is None or _number(("SLURM_STEP_NUM_TASKS",)) != size:
        return None
    counts = []
    for part in os.environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        tasks, _, times = part.rstrip(")").partition("(x")
        if not tasks.isdecimal() or not (times or "1").isdecimal():
            return None
        counts += [int(tasks)] * int(times or "1")
    return counts[node] if node < len(counts) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read(name: str) -> str:
    with open(name, encoding="ascii") as file:
        return file.read()
