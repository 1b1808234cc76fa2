"""From a fake step to the memory of a card: what CUDA adds to the script's own tensors, as an interval."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.catalogue.devices import CUDA_CONTEXT, MIB, Device
from autotune.fit.sharding import UPDATE, Shards, buffers, phase_peaks, rest_of
from autotune.model.fitted import MemoryNeed
from autotune.model.recording import FitRecord, FitStep

NCCL = (100 * MIB, 1000 * MIB)
"""Buffers of the communicators of a card among several."""

WORKSPACE, WORKSPACE_HOPPER = 2 * (8 * MIB + 128 * 1024), 2 * 32 * MIB
"""cuBLAS, of the training thread and of that of backward: torch's default of CUBLAS_WORKSPACE_CONFIG by architecture
(aten/src/ATen/cuda/CUDABlas.cpp)."""

OWN_MEMORY = 0.30
"""Operators and libraries take memory that no fake step sees (cuDNN's workspaces, sorts, copies of other releases): so
much of what lives beside weights, gradients and optimizer, at most. It holds the published peaks that were not kept
aside (docs/fit.md): bert-large in fp16 needs 0.28."""

COMPILED_AWAY = 0.40
"""The plan is of eager code. Compiled code keeps fewer activations: up to this share fewer. The published peaks of a
compiled step with its optimizer in backward need 0.35."""

LOWER_MARGIN = 0.03
"""Share of the peak by which the lower end lies below it: other releases of torch keep less alive. The published peaks
that were not kept aside need 0.023."""

FRAGMENTATION = 0.05
"""Of the peak, the allocator holds back as much at least in the upper end: real steps differ from one another."""


def of_step(step: FitStep, record: FitRecord, card: Device, shards: Shards | None) -> MemoryNeed:
    """What `step` needs on `card`, of which `shards` says how many share it.

    The lower end is the peak of what is live at once, minus LOWER_MARGIN and what compilation saves, plus the smallest
    CUDA context.
    The upper end is what torch's allocator takes from the driver for it, with workspaces, operators' own memory and the
    largest context.
    """
    phases = phase_peaks(step, record, shards)
    found = max(phases.values(), key=lambda one: one.num_bytes)
    saved = COMPILED_AWAY if record.compiles else 0.0
    least = max(one.num_bytes - saved * rest_of(step.peaks[phase]) * (phase != UPDATE) for phase, one in phases.items())
    low = (1 - LOWER_MARGIN) * least + CUDA_CONTEXT[0] + (NCCL[0] if shards is not None else 0)
    high = max(_upper_ends(step, record, card, shards).values())
    return MemoryNeed(step.samples, step.length, int(low), int(high), found.parts)


def _upper_ends(
    step: FitStep, record: FitRecord, card: Device, shards: Shards | None
) -> dict[tuple[str, str, str], float]:
    """What the upper end may be, of which it is the largest. Each is a line over the samples; their largest is none.

    They differ in the phase of the peak, in what is held back, and in the phase whose operators take memory themselves.
    """
    phases = phase_peaks(step, record, shards)
    peak, own = max(one.bytes for one in step.peaks.values()), max(one.num_bytes for one in phases.values())
    held_back = {phase: FRAGMENTATION * one.num_bytes for phase, one in phases.items()}
    # The allocator was followed through a step of one card: a part of the step leaves the same part of its gaps.
    held_back["allocator"] = (step.reserved_bytes - peak) * min(1.0, own / peak)
    workspace = WORKSPACE_HOPPER if (card.capability or (0, 0)) >= (9, 0) else WORKSPACE
    fixed = buffers(step, shards) + workspace + CUDA_CONTEXT[1] + (NCCL[1] if shards is not None else 0)
    return {
        (phase, holder, user): one.num_bytes + held + OWN_MEMORY * rest_of(step.peaks[user]) + fixed
        for phase, one in phases.items()
        for holder, held in held_back.items()
        for user in step.peaks
    }


def largest_micro_batch(steps: Sequence[FitStep], record: FitRecord, card: Device, shards: Shards | None) -> int | None:
    """The most samples of a micro-batch whose upper end `card` has; None where one size alone is known.

    Each of what the upper end may be is a line over the samples, through the two largest sizes of one length.
    """
    alike = {step.samples: step for step in steps if step.samples and step.length == steps[0].length}
    if len(alike) < 2:
        return None
    fewer, more = (alike[size] for size in sorted(alike, key=int)[-2:])
    low, high = (_upper_ends(step, record, card, shards) for step in (fewer, more))
    sizes = (int(fewer.samples or 0), int(more.samples or 0))
    counts = [_most(sizes, (low[kind], high[kind]), card.memory_bytes) for kind in high if kind in low]
    known = [count for count in counts if count is not None]
    return max(0, min(known)) if known else None


def _most(sizes: tuple[int, int], ends: tuple[float, float], limit: int) -> int | None:
    """Samples with which an upper end is `limit`; where it does not rise with them 0 if it is more, else None."""
    fewer, more = ends
    slope = (more - fewer) / (sizes[1] - sizes[0])
    if slope <= 0:
        return 0 if more > limit else None
    return int(sizes[1] + (limit - more) // slope)
