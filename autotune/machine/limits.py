"""CPUs and memory that this process may use. `root` replaces "/" so that tests can read a fake tree."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from autotune.machine import cgroup, proc_files
from autotune.model.evidence import RUN, Fact, Value

_CPUS = "sys/devices/system/cpu"


def facts(root: Path = Path("/"), affinity: frozenset[int] | None = None) -> tuple[Fact, ...]:
    """What is known of CPUs and memory before the run. `affinity` defaults to that of this process."""
    mask = affinity if affinity is not None else current_affinity()
    quota = cgroup.cpu_quota(root)
    host = host_cpus(root)
    values: dict[str, Value | None] = {
        "machine.cpu_quota": cpu_quota(mask, quota, host),
        "machine.cpu_limited_by": cpu_limited_by(mask, quota, host),
        "machine.cgroup_cpus": quota,
        "machine.host_cpus": host,
        "machine.physical_cores": physical_cores(root, mask),
        "machine.cpu_name": cpu_name(root),
        "machine.load": load(root),
        "machine.memory_limit_bytes": memory_limit(root),
        "machine.memory_available_bytes": memory_available(root),
    }
    return tuple(Fact(name, RUN, value) for name, value in values.items() if value is not None)


def current_affinity() -> frozenset[int] | None:
    """The CPUs that the scheduler may give to this process; None where the system has no such mask."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def cpu_quota(affinity: frozenset[int] | None, quota: float | None, host: int | None) -> float | None:
    """The least of the mask's size, the cgroup's quota and the host's CPUs."""
    known = [float(limit) for limit in (quota, len(affinity) if affinity else None, host) if limit is not None]
    return min(known, default=None)


def num_cpus(root: Path = Path("/")) -> float | None:
    """CPUs that this process may use."""
    return cpu_quota(current_affinity(), cgroup.cpu_quota(root), host_cpus(root))


def cpu_limited_by(affinity: frozenset[int] | None, quota: float | None, host: int | None) -> str | None:
    """ "cgroup" or "affinity": the tighter of the two where it leaves less than the host has; else "host"."""
    if host is None:
        return None
    mask = len(affinity) if affinity else host
    if quota is not None and quota < min(mask, host):
        return "cgroup"
    return "affinity" if mask < host else "host"


def host_cpus(root: Path = Path("/")) -> int | None:
    """Logical CPUs of the host that are switched on."""
    online = proc_files.text(root / _CPUS / "online")
    if online:
        return len(cpu_list(online))
    import psutil  # of the extra "train": a system without /sys needs it

    return psutil.cpu_count(logical=True)


def cpu_list(ranges: str) -> frozenset[int]:
    """The kernel's list format: "0-3,8" is {0, 1, 2, 3, 8}."""
    pairs = (part.partition("-") for part in ranges.split(",") if part.strip())
    return frozenset(cpu for low, _, high in pairs for cpu in range(int(low), int(high or low) + 1))


def physical_cores(root: Path = Path("/"), affinity: frozenset[int] | None = None) -> int | None:
    """Physical cores that `affinity` covers; a core counts once however many of its threads are in the mask.

    None where there is a mask and the kernel describes no topology.
    """
    if affinity:
        paths = (root / _CPUS / f"cpu{cpu}/topology/thread_siblings_list" for cpu in affinity)
        siblings = [proc_files.text(path) for path in paths]
        return len(set(siblings)) if all(siblings) else None
    import psutil

    return psutil.cpu_count(logical=False)


def cpu_name(root: Path = Path("/")) -> str | None:
    """Model name of the first CPU. ARM kernels state none in cpuinfo; the platform's word is used then."""
    for line in (proc_files.text(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or None


def load(root: Path = Path("/")) -> float | None:
    """Load average of the last minute: of the host, also inside a container."""
    import psutil

    words = (proc_files.text(root / "proc/loadavg") or "").split()
    return float(words[0]) if words else psutil.getloadavg()[0]


def memory_limit(root: Path = Path("/"), pid: int | None = None) -> int:
    """Bytes: the least of the machine's memory and every cgroup limit."""
    limit = cgroup.memory_limit(root, pid)
    total = _meminfo(root, "MemTotal") or int(_virtual_memory().total)
    return min(total, limit) if limit is not None else total


def memory_available(root: Path = Path("/"), pid: int | None = None) -> int:
    """Bytes that a new process could use now without swapping or being killed."""
    left = cgroup.memory_left(root, pid)
    free = _meminfo(root, "MemAvailable") or int(_virtual_memory().available)
    return min(free, left) if left is not None else free


def _virtual_memory() -> Any:
    import psutil  # of the extra "train": a system without /proc needs it

    return psutil.virtual_memory()


def _meminfo(root: Path, key: str) -> int | None:
    for line in (proc_files.text(root / "proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name == key and value.split()[1:] == ["kB"]:
            return int(value.split()[0]) * 1024
    return None


def busy_cpu_s(root: Path = Path("/")) -> float | None:
    """CPU seconds of everybody on the host since it was booted, interrupts included; None where nothing tells."""
    words = (proc_files.text(root / "proc/stat") or "").split(maxsplit=9)
    if words[:1] != ["cpu"] or len(words) < 8:
        return None
    user, nice, system, _, _, irq, softirq = map(int, words[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
