"""The machine in one line, from its facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from autotune.model.evidence import Fact, Value

_GIB = 2**30
_VENDOR = re.compile(r"^(NVIDIA|Tesla|GeForce|Quadro)\s+")
_MEMORY = re.compile(r"[ -]\d+ ?GB\b|[ -]HBM\d\w*|-PCIE\b")


def describe(facts: Iterable[Fact]) -> str:
    """One line such as "2 cores by cgroup (host has 128), 24 GB, no GPU found"; the unknown is left out.

    Memory is in units of 2**30 bytes and called GB, as it is sold: "80 GB" is what a buyer of that GPU reads.
    """
    known = {fact.name: fact.value for fact in facts}
    gpu = _gpu(known)
    memory = _gigabytes(known.get("machine.memory_limit_bytes"))
    parts = [gpu, _cores(known), memory] if known.get("machine.num_gpus") else [_cores(known), memory, gpu]
    return ", ".join(part for part in parts if part)


def short_name(gpu_name: str) -> str:
    """The model without its maker and memory: "NVIDIA H100 80GB HBM3" is "H100"."""
    name = gpu_name
    while (shorter := _VENDOR.sub("", name)) != name:
        name = shorter
    return _MEMORY.sub("", name)


def _cores(known: Mapping[str, Value]) -> str:
    quota, host = known.get("machine.cpu_quota"), known.get("machine.host_cpus")
    if not isinstance(quota, int | float):
        return ""
    cores = f"{quota:g} core" if quota == 1 else f"{quota:g} cores"
    limit = known.get("machine.cpu_limited_by", "host")
    return cores if limit == "host" else f"{cores} by {limit} (host has {host})"


def _gpu(known: Mapping[str, Value]) -> str:
    number, name = known.get("machine.num_gpus"), known.get("machine.gpu_name")
    if not number:
        return "no GPU found"
    words = [f"{number}x", short_name(name) if isinstance(name, str) else "GPU"]
    return " ".join(filter(None, [*words, _gigabytes(known.get("machine.gpu_memory_bytes"))]))


def _gigabytes(size: Value | None) -> str:
    if not isinstance(size, int):
        return ""
    gib = size / _GIB
    return f"{gib:.0f} GB" if gib >= 10 else f"{gib:.1f} GB"
