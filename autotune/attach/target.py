"""Who the process is, and when it is refused: it is not here, it is no Python, or it only starts those that train."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from autotune.errors import UsageError
from autotune.invocation import invoked
from autotune.machine import other_process
from autotune.machine.other_process import ProcessAbout, ProcessReading
from autotune.model.attached import AttachedProcess, OtherProcess

WHERE = "--pid"
MOST_NAMED = 8
NEXT_START = "At its next start, AUTOTUNE_WATCH=1 in front of the command watches the whole run."


ENDED = "the process ended meanwhile"

Below = list[tuple[ProcessReading, ProcessAbout | None]]
"""The descendants, each with what it is."""

Roles = tuple[tuple[ProcessReading, str], ...]
"""The same, each with its role."""


class Target(Struct, frozen=True):
    """The process, what /proc says of it, and its child processes at the first look."""

    about: ProcessAbout
    children: Roles
    others: tuple[OtherProcess, ...]

    @property
    def pid(self) -> int:
        return self.about.pid

    @property
    def is_own(self) -> bool:
        """Whether it is of the user who asks."""
        return self.about.uid == os.geteuid()

    @property
    def environ(self) -> dict[str, str]:
        return dict(self.about.environ or {})


def find(pid: int, root: Path = Path("/")) -> Target:
    """The process `pid`. Raises UsageError where there is nothing to look at, with the process to ask for instead."""
    about = other_process.about(pid, root)
    if about is None:
        raise UsageError(f"there is no process {pid} here", where=WHERE, to_do=_ABSENT)
    if pid == os.getpid():
        raise UsageError(f"process {pid} is autotune itself", where=WHERE)
    if about.thread_of:
        raise UsageError(
            f"{pid} is a thread of process {about.thread_of}",
            where=WHERE,
            to_do=f"Look at the process: autotune diagnose --pid {about.thread_of}",
        )
    if about.is_kernel:
        raise UsageError(f"{pid} is a thread of the kernel: nothing trains in it", where=WHERE)
    readings = other_process.tree(pid, root)
    if not readings or readings[0].state in "ZX":
        raise gone(pid)
    below = [(one, other_process.about(one.pid, root)) for one in readings[1:]]
    abouts = {pid: about} | {one.pid: its for one, its in below if its is not None}
    roles = tuple((one, other_process.role(one, its, abouts.get(one.parent, about))) for one, its in below)
    launches = any(role == "rank" for _, role in roles)
    if about.is_python is False or launches or (about.has_torch is False and _trains_below(below)):
        _refuse(about, below)
    return Target(about, roles, _others(below, roles, about, root))


def has_ended(target: Target, root: Path = Path("/")) -> bool:
    """Whether the process is gone; its number may be another's by now."""
    reading = other_process.read(target.pid, root)
    return reading is None or reading.state in "ZX" or reading.start_ticks != target.about.start_ticks


def gone(pid: int) -> UsageError:
    """The error for a process that ended."""
    return UsageError(f"process {pid} has ended", where=WHERE, to_do=f"Nothing can be seen any more. {NEXT_START}")


_ABSENT = (
    "It may have ended, or be of another machine or container: process numbers count in each container on their own.\n"
    "Run autotune where it runs (docker exec, kubectl exec, srun --jobid), with the number that `ps` shows there."
)


def described(target: Target, root: Path = Path("/")) -> AttachedProcess:
    """The process as the report names it: of its command the script alone, as arguments may hold a secret."""
    about = target.about
    reading = other_process.read(target.pid, root)
    if reading is None:
        raise gone(target.pid)
    return AttachedProcess(
        pid=about.pid,
        script=script(about, reading.name),
        user=_user(about.uid),
        is_own=target.is_own,
        python=".".join(map(str, about.python)) if about.python else None,
        has_torch=about.has_torch,
        age_s=_age_s(about.start_ticks, root),
        rank=other_process.rank_of(about),
        state=reading.state,
    )


def script(about: ProcessAbout, name: str) -> str:
    """The name of what it runs."""
    words = about.argv
    if not words or not words[0]:
        return name
    return invoked(words, Path(about.cwd or "/"), about.environ or {}).title


def _refuse(about: ProcessAbout, below: Below) -> None:
    """Raises UsageError: of what the process has started, those are named that train."""
    what = "is no Python" if about.is_python is False else "has not loaded torch"
    what = what if not about.has_torch else "is a launcher"
    name = Path(about.exe).name if about.exe else script(about, "it")
    training = [(one, its) for one, its in below if its is not None and its.is_python and its.has_torch]
    tops = [(one, its) for one, its in training if one.parent not in {other.pid for other, _ in training}]
    where = f"{WHERE} {about.pid}"
    if not tops:
        raise UsageError(
            f"process {about.pid} ({name}) {what}, and nothing below it trains",
            where=where,
            to_do="Name the process that trains: the Python that `ps -ef` or `nvidia-smi` shows.",
        )
    lines = [f"    autotune diagnose --pid {one.pid}    # {_named(one, its)}" for one, its in tops[:MOST_NAMED]]
    more = [f"    and {len(tops) - MOST_NAMED} more"] if len(tops) > MOST_NAMED else []
    raise UsageError(
        f"process {about.pid} ({name}) {what}: it has started what trains",
        where=where,
        to_do="\n".join(["Look at one of these:", *lines, *more]),
    )


def _named(one: ProcessReading, its: ProcessAbout) -> str:
    rank = other_process.rank_of(its)
    return script(its, one.name) + (f", rank {rank}" if rank is not None else "")


def _trains_below(below: Below) -> bool:
    return any(its is not None and its.has_torch for _, its in below)


def _others(below: Below, roles: Roles, about: ProcessAbout, root: Path) -> tuple[OtherProcess, ...]:
    """The other ranks of its job on this machine, and its own children that are no workers, by rank and number."""
    found = []
    if other_process.rank_of(about) is not None:
        beside = ((one, other_process.about(one, root)) for one in other_process.siblings(about.pid, root))
        for pid, its in beside:
            if its is not None and (rank := other_process.rank_of(its)) is not None:
                found.append(OtherProcess(pid, "rank", script(its, "?"), rank))
    for (one, its), (_, role) in zip(below, roles, strict=True):
        is_own = one.parent == about.pid and not other_process.is_helper(its)
        if role != "worker" and is_own and its is not None and its.has_torch:
            rank = other_process.rank_of(its)
            found.append(OtherProcess(one.pid, "rank" if role == "rank" else "child", script(its, one.name), rank))
    return tuple(sorted(found, key=lambda other: (other.rank is None, other.rank or 0, other.pid)))


def _age_s(start_ticks: int, root: Path) -> float | None:
    for line in _first_line(root / "proc/uptime"):
        return max(0.0, float(line.split()[0]) - start_ticks / os.sysconf("SC_CLK_TCK"))
    return None


def _first_line(path: Path) -> Iterator[str]:
    with contextlib.suppress(OSError), path.open(encoding="ascii") as file:
        yield file.readline()


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
