"""The machine and the script's environment: hardware, limits, storage, software, and a watch over a run.

Nothing here imports torch. psutil and pynvml live here and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from autotune.machine import gpu, limits, sampler, storage, wheels
from autotune.machine import software as _software
from autotune.machine.gpu import Gpus
from autotune.machine.gpu import read as read_gpus
from autotune.machine.interpreter import find_python
from autotune.machine.limits import memory_available, num_cpus
from autotune.machine.nvml import connect as connect_nvml
from autotune.machine.processes import identity, is_gone, is_here
from autotune.machine.sampler import MachineSampler, MachineSamples
from autotune.machine.sampler import facts as sampled_facts
from autotune.machine.storage import FileSystem, file_system, free_bytes, local_disk
from autotune.model.evidence import Fact

software = _software.software
software_facts = _software.facts

__all__ = [
    "FileSystem",
    "Gpus",
    "MachineSampler",
    "MachineSamples",
    "connect_nvml",
    "facts",
    "file_system",
    "find_python",
    "free_bytes",
    "identity",
    "is_gone",
    "is_here",
    "local_disk",
    "memory_available",
    "num_cpus",
    "read_gpus",
    "sampled_facts",
    "software",
    "software_facts",
]


def facts(
    versions: Mapping[str, str],
    sampled: sampler.MachineSamples | None = None,
    *,
    gpus: Gpus | None = None,
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
    today: date | None = None,
) -> tuple[Fact, ...]:
    """Everything that is known of the machine and the software, as facts of the run.

    `versions` is what `software(python)` returned. Load, free memory and other GPU processes are those of
    the moment of this call: call it before the run, and add `sampled_facts` afterwards. `gpus` saves
    reading NVML again.
    """
    seen = gpus if gpus is not None else read_gpus(environ=environ)
    found = limits.facts(root) + storage.facts(root) + gpu.facts(seen) + wheels.facts()
    found += _software.facts(versions, today)
    return found + (sampler.facts(sampled) if sampled is not None else ())
