"""Limits and counters of the control groups that a process is in, by default this one: v2, v1 and both (hybrid).

A limit holds for everything below it, so every level counts, from the process's own group up to the highest
group that can be seen. Sources: kernel documentation, admin-guide/cgroup-v2 and cgroup-v1/memory;
scheduler/sched-bwc.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from msgspec import Struct

from autotune.machine import proc_files
from autotune.machine.mounts import Mount, mounts


class ControlGroup(Struct, frozen=True):
    """One level: its folder, and whether it speaks cgroup v2."""

    folder: Path
    is_v2: bool


def groups(controller: str, root: Path = Path("/"), pid: int | None = None) -> tuple[ControlGroup, ...]:
    """The levels that can limit `controller` ("cpu" or "memory") for the process, the innermost first.

    The v2 levels are always among them: where a hierarchy does not carry the controller, its files are
    missing.
    """
    found: list[ControlGroup] = []
    table = mounts(root)
    for names, path in _memberships(root, pid):
        mount = _mount_of(names, controller, table)
        if mount is not None:
            found += _levels(mount, path, root)
    return tuple(found)


def cpu_quota(root: Path = Path("/"), pid: int | None = None) -> float | None:
    """CPUs by the tightest quota of all levels (quota / period), or None when nothing limits them."""
    quotas = [quota for group in groups("cpu", root, pid) if (quota := _cpu_quota(group)) is not None]
    return min(quotas, default=None)


def memory_limit(root: Path = Path("/"), pid: int | None = None) -> int | None:
    """Bytes by the tightest limit of all levels, or None. A v1 group without a limit states about 2**63."""
    limits = [limit for group in groups("memory", root, pid) if (limit := _memory_limit(group)) is not None]
    return min(limits, default=None)


def memory_left(root: Path = Path("/"), pid: int | None = None) -> int | None:
    """Bytes that can still be used below the tightest level, or None when nothing limits.

    The inactive page cache counts as free: the kernel gives it back before it kills.
    """
    left = [room for group in groups("memory", root, pid) if (room := _memory_left(group)) is not None]
    return min(left, default=None)


class Throttling(Struct, frozen=True):
    """Counters of one level since it was made: seconds summed over CPUs, and enforcement periods."""

    throttled_s: float
    num_throttled: int
    num_periods: int


def throttling(root: Path = Path("/"), pid: int | None = None) -> dict[Path, Throttling]:
    """The CPU bandwidth counters of each level that has them, by its folder."""
    found = {}
    for group in groups("cpu", root, pid):
        stat = proc_files.table(group.folder / "cpu.stat")
        key, unit = ("throttled_usec", 1e-6) if group.is_v2 else ("throttled_time", 1e-9)
        if key in stat and "nr_periods" in stat:
            periods = stat.get("nr_throttled", 0), stat["nr_periods"]
            found[group.folder] = Throttling(stat[key] * unit, *periods)
    return found


def num_oom_kills(root: Path = Path("/"), pid: int | None = None) -> int | None:
    """Processes of its memory group that the kernel has killed for memory; None when nobody counts them."""
    for group in groups("memory", root, pid):
        name = "memory.events" if group.is_v2 else "memory.oom_control"
        kills = proc_files.table(group.folder / name).get("oom_kill")
        if kills is not None:
            return kills
    return None


def _memberships(root: Path, pid: int | None) -> list[tuple[frozenset[str], str]]:
    """(controllers, path) of each line of /proc/PID/cgroup; the v2 line "0::/path" has no controllers."""
    lines = (proc_files.text(root / "proc" / ("self" if pid is None else str(pid)) / "cgroup") or "").splitlines()
    rows = [line.split(":", 2) for line in lines]
    return [(frozenset(filter(None, row[1].split(","))), row[2]) for row in rows if len(row) == 3]


def _mount_of(names: frozenset[str], controller: str, table: tuple[Mount, ...]) -> Mount | None:
    if not names:
        return next((mount for mount in table if mount.type == "cgroup2"), None)
    if controller not in names:
        return None
    return next((mount for mount in table if mount.type == "cgroup" and controller in mount.options), None)


def _levels(mount: Mount, path: str, root: Path) -> list[ControlGroup]:
    top = root / mount.mount_point.lstrip("/")
    own = top / _below(mount.root, path)
    folders = [folder for folder in (own, *own.parents) if folder == top or top in folder.parents]
    return [ControlGroup(folder, mount.type == "cgroup2") for folder in folders]


def _below(mount_root: str, path: str) -> PurePosixPath:
    """`path` as seen from the mount point.

    A container without a cgroup namespace is told the host's path while only its own group is mounted; the
    mount's root then is that path. A path outside the mount (or with ".." from another namespace) leaves
    the top itself.
    """
    group = PurePosixPath(path)
    if ".." in group.parts or not group.is_relative_to(mount_root):
        return PurePosixPath()
    return group.relative_to(mount_root)


def _cpu_quota(group: ControlGroup) -> float | None:
    if group.is_v2:
        words = (proc_files.text(group.folder / "cpu.max") or "").split()
        quota, period = (int(word) if word.isdigit() else None for word in (*words, "", "")[:2])
    else:
        quota = proc_files.number(group.folder / "cpu.cfs_quota_us")
        period = proc_files.number(group.folder / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def _memory_limit(group: ControlGroup) -> int | None:
    return proc_files.number(group.folder / ("memory.max" if group.is_v2 else "memory.limit_in_bytes"))


def _memory_left(group: ControlGroup) -> int | None:
    limit = _memory_limit(group)
    used = proc_files.number(group.folder / ("memory.current" if group.is_v2 else "memory.usage_in_bytes"))
    if limit is None or used is None:
        return None
    stat = proc_files.table(group.folder / "memory.stat")
    cache = stat.get("inactive_file" if group.is_v2 else "total_inactive_file", 0)
    return max(0, limit - max(0, used - cache))
