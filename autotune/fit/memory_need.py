"""From a fake step to the memory of a card: what CUDA adds to the script's own tensors, as an interval."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.catalogue.devices import Device
from autotune.fit.sharding import PhasePeak, Shards, buffers, phase_peaks
from autotune.model.fitted import MemoryNeed
from autotune.model.recording import FitRecord, FitStep

MIB = 2**20

LEAST_RISE = 0.001
"""A peak that rises by less than this share with all of its samples does not depend on them."""

CONTEXT = (350 * MIB, 1400 * MIB)
"""CUDA's context and the kernels that are loaded, at least and at most: the former with lazy loading (CUDA 11.7 and
newer), the latter without. NCCL is not in it."""

NCCL = (100 * MIB, 1000 * MIB)
"""Buffers of the communicators of a card among several."""

WORKSPACE, WORKSPACE_HOPPER = 2 * (8 * MIB + 128 * 1024), 2 * 32 * MIB
"""cuBLAS, of the training thread and of that of backward: torch's default of CUBLAS_WORKSPACE_CONFIG by architecture
(aten/src/ATen/cuda/CUDABlas.cpp)."""

OWN_MEMORY = 0.15
"""Operators and libraries take memory that no fake step sees (cuDNN's workspaces, sorts, copies of other releases): so
much of what lives beside weights, gradients and optimizer, at most (docs/fit.md: published peaks)."""

FRAGMENTATION = 0.05
"""Of the peak, the allocator holds back as much at least in the upper end: real steps differ from one another."""


def of_step(step: FitStep, record: FitRecord, card: Device, shards: Shards | None) -> MemoryNeed:
    """What `step` needs on `card`, of which `shards` says how many share it.

    The lower end is the peak of what is live at once, with the least context. The upper end is what torch's allocator
    takes from the driver for it, with workspaces, operators' own memory and the largest context.
    """
    found = max(phase_peaks(step, record, shards).values(), key=lambda one: one.num_bytes)
    peak = max(step.peaks.values(), key=lambda one: one.bytes)
    workspace = WORKSPACE_HOPPER if (card.capability or (0, 0)) >= (9, 0) else WORKSPACE
    held_back = max(step.reserved_bytes - peak.bytes, FRAGMENTATION * peak.bytes)
    own = OWN_MEMORY * max(one.parts["rest"] for one in step.peaks.values())
    between = NCCL if shards is not None else (0, 0)
    low = found.num_bytes + CONTEXT[0] + between[0]
    high = found.num_bytes + buffers(step, shards) + held_back + workspace + own + CONTEXT[1] + between[1]
    return MemoryNeed(step.samples, step.length, int(low), int(high), found.parts)


def largest_micro_batch(steps: Sequence[FitStep], record: FitRecord, card: Device, shards: Shards | None) -> int | None:
    """The most samples of a micro-batch whose upper end `card` has; None where one size alone is known.

    The peak of each phase is a line over the samples, through the two largest sizes of one length; what the upper end
    has beyond the peak grows as the peak does.
    """
    alike = {step.samples: step for step in steps if step.samples and step.length == steps[0].length}
    if len(alike) < 2:
        return None
    fewer, more = (alike[size] for size in sorted(alike, key=int)[-2:])
    low, high = (phase_peaks(step, record, shards) for step in (fewer, more))
    beyond = of_step(more, record, card, shards).high / max(one.num_bytes for one in high.values())
    limit = card.memory_bytes / beyond
    sizes = (int(fewer.samples or 0), int(more.samples or 0))
    counts = [_most(sizes, (low[phase], high[phase]), limit) for phase in high if phase in low]
    known = [count for count in counts if count is not None]
    return max(0, min(known)) if known else None


def _most(sizes: tuple[int, int], peaks: tuple[PhasePeak, PhasePeak], limit: float) -> int | None:
    """Samples with which a phase's peak is `limit`; where it does not depend on them 0 if it is more, else None."""
    fewer, more = (peak.num_bytes for peak in peaks)
    slope = (more - fewer) / (sizes[1] - sizes[0])
    if slope * sizes[1] < LEAST_RISE * more:
        return 0 if more > limit else None
    return int(sizes[1] + (limit - more) // slope)
