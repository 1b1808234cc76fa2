"""Environment variables that files set: those for debugging, and those that forbid NCCL a kind of link."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from autotune.model.evidence import RUN, Fact, Location
from autotune.scan.launch import Launch

VARIABLES: Mapping[str, frozenset[str]] = {
    "debug_variables": frozenset({"CUDA_LAUNCH_BLOCKING", "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCH_DISTRIBUTED_DEBUG"}),
    "restricted_links": frozenset({"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"}),
}
"""Fact -> the variables that it speaks of, where they are neither empty nor 0."""

COSTS_AT: Mapping[str, frozenset[str]] = {"TORCH_DISTRIBUTED_DEBUG": frozenset({"DETAIL"})}
"""The values of a variable that cost time, where others do not."""

Set = tuple[str, str, Location]
"""The name of a variable, its value, and where that is written."""


BETWEEN_MACHINES = "NCCL_IB_DISABLE"
"""Forbids a link that only processes on several machines use."""


def facts(launches: Sequence[Launch], *, is_spread: bool = False) -> Iterator[Fact]:
    """Facts `config.debug_variables` and `config.restricted_links` of the commands; `is_spread` says that they start
    processes on several machines."""
    found = [
        (name, str(given.value), given.location)
        for launch in launches
        for name, given in launch.variables.items()
        if given.known and (is_spread or name != BETWEEN_MACHINES)
    ]
    if launches:
        yield from variables_set("config", found)


def variables_set(kind: str, found: Iterable[Set]) -> Iterator[Fact]:
    """What is set of each kind of variable; "" where none is."""
    rows = list(found)
    for fact, names in VARIABLES.items():
        own = [(name, value, at) for name, value, at in rows if name in names and _costs(name, value)]
        words = dict.fromkeys(f"{name}={value}" for name, value, _ in own)
        yield Fact(f"{kind}.{fact}", RUN, " ".join(words), tuple(at for _, _, at in own))


def _costs(name: str, value: str) -> bool:
    return value in COSTS_AT[name] if name in COSTS_AT else value not in ("", "0")
