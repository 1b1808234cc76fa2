"""Facts of a Recording that was made from a profiler's trace: what its events cannot tell is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autotune.model.evidence import RUN, Fact, Setting
from autotune.model.recording_sections import TraceOrigin

NEVER = (
    "calls.empty_cache_",
    "calls.gc_",
    "run.framework",
    "checkpoint.",
    "evaluation.",
    "memory.ran_out",
    "step.starts_loader",
    "loader.is_map_style",
    "loader.num_epochs_seen",
    "loader.is_remade",
    "loader.batch_cpu_share",
    "loader.cpu_demand_share",
    "loader.collate_share",
    "loader.num_batches",
    "loader.sample_format",
)
"""Beginnings of facts that need the probe: it sees each save, each evaluation, each call of gc.collect and so none."""

OF_STEPS = ("step.", "run.step_ms", "calls.user_syncs_per_step", "loader.batches_per_step")
"""Of a trace that marks no steps, the whole counts as one: what is of a step is not known."""

SHARES = "_share"

OF_STEADY = ("device.launch_idle_", "device.other_sync_idle_")
"""Of such a trace idle time may be that of its start, in which libraries are loaded and memory is first asked for."""


def told(facts: Iterable[Fact], origin: TraceOrigin | None) -> Iterator[Fact]:
    """The facts that the origin of a Recording can tell: all of them where the probe made it."""
    if origin is None:
        yield from facts
        return
    for fact in facts:
        if not _is_unknown(fact.name, origin):
            yield fact
    yield Fact("run.compiled", RUN, origin["is_compiled"])


OBSERVED = ("loader.num_workers", "loader.pin_memory")
"""Settings that a trace shows; that others were left alone is not seen in it."""


def told_settings(settings: Iterable[Setting], origin: TraceOrigin | None) -> Iterator[Setting]:
    """The settings that the origin of a Recording can tell."""
    return (setting for setting in settings if origin is None or setting.name in OBSERVED)


def _is_unknown(name: str, origin: TraceOrigin) -> bool:
    if name.startswith(NEVER):
        return True
    if name == "run.world_size" and not origin["knows_rank"]:
        return True
    if name.startswith("calls.user_sync") and not origin["has_stacks"]:
        return True
    if origin["are_steps_marked"]:
        return False
    return name.startswith(OF_STEADY) or (name.startswith(OF_STEPS) and not name.endswith(SHARES))
