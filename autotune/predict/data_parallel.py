"""One device's part when k of them share a step: micro-batches, memory, communication. The global batch is held.

A ring passes (k - 1) / k of a tensor to gather or to reduce it once, so an all-reduce is two of those. What of it is
exposed lies between all of it and what cannot hide behind the computing beside it.
"""

from __future__ import annotations

import math

from msgspec import Struct

from autotune.model.outlook import MemoryBudget, ValueRange
from autotune.model.report import Step
from autotune.predict import memory_budget as parts

BUCKET_BYTES = 25 * 2**20
"""DDP's bucket_cap_mb: the last bucket is reduced when backward is over."""

PER_MICRO_BATCH = ("data_wait", "h2d", "forward", "recompute", "backward")
"""Phases that the devices share out. Saves and evaluation stay whole; of "other" nobody knows."""


class ParallelStrategy(Struct, frozen=True):
    """How devices share: which tensors each keeps a k-th of. `effort` is what it takes beside starting k processes."""

    name: str
    weights: bool
    gradients: bool
    state: bool
    effort: str
    risk: str


KINDS = (
    ParallelStrategy(
        "DDP", False, False, False, "", "data is distributed differently: losses will not match step by step"
    ),
    ParallelStrategy("ZeRO-2", False, True, True, ", with a DeepSpeed config", "as DDP; saves are sharded"),
    ParallelStrategy(
        "FSDP (ZeRO-3)", True, True, True, ", with an FSDP config", "as ZeRO-2; its largest layer comes on top"
    ),
)


class DeviceShare(Struct, frozen=True):
    """`count` micro-batches for one device, and how many and how large these are, of today's."""

    count: int
    of_count: float
    of_size: float


class Devices(Struct, frozen=True):
    """`num` of them that pass `bytes_per_s` to each other."""

    num: int
    bytes_per_s: float

    def pass_ms(self, num_bytes: float) -> float:
        """Milliseconds to gather or to reduce a tensor of `num_bytes` once."""
        return num_bytes * (1 - 1 / self.num) / self.bytes_per_s * 1000


def split_step(size: int, count: int, num_devices: int) -> DeviceShare | None:
    """As few micro-batches as hold a k-th of `count` of `size` samples and are no larger; None: it cannot be."""
    each, rest = divmod(size * count, num_devices)
    if rest or not each:
        return None
    then = next(n for n in range(math.ceil(count / num_devices), each + 1) if each % n == 0 and each // n <= size)
    return DeviceShare(then, then / count, each / then / size)


def memory(kind: ParallelStrategy, devices: Devices, part: DeviceShare, budget: MemoryBudget) -> ValueRange | None:
    """Peak bytes of each device; None when a part of it is unknown.

    With the micro-batch the rest shrinks at best all (activations), at worst not at all (data, temporary results). At
    best the allocator keeps no cache.
    """
    shared = {parts.WEIGHTS: kind.weights, parts.GRADIENTS: kind.gradients, parts.OPTIMIZER: kind.state}
    rest = budget.of(parts.ACTIVATIONS)
    # DDP copies gradients into its buckets (gradient_as_bucket_view is off unless told).
    total = 0.0 if kind.gradients else float(budget.of(parts.GRADIENTS) or 0)
    for each in budget.parts:
        if each.name not in (parts.HEADROOM, parts.ACTIVATIONS):
            if each.num_bytes is None:
                return None
            total += each.num_bytes / (devices.num if shared.get(each.name) else 1)
    least = total - (budget.of(parts.CACHE) or 0)
    return None if rest is None else ValueRange(least + rest * part.of_size, total + rest, "modelled")


def exposed_communication_ms(
    kind: ParallelStrategy, devices: Devices, part: DeviceShare, budget: MemoryBudget, step: Step
) -> ValueRange:
    """Milliseconds of communication per step that training waits for. The gradients' size has to be known."""
    weights, gradients = budget.of(parts.WEIGHTS) or 0, budget.of(parts.GRADIENTS) or 0
    scale = part.of_count * part.of_size
    backward = (step.breakdown_ms.get("backward") or 0.0) * scale
    once = devices.pass_ms(gradients)
    if kind.weights:
        # Weights are gathered for every forward and backward, gradients reduced with them.
        total = part.count * (2 * devices.pass_ms(weights) + once)
        return ValueRange(
            max(0.0, total - backward - (step.breakdown_ms.get("forward") or 0.0) * scale), total, "assumed"
        )
    last = min(once, devices.pass_ms(BUCKET_BYTES))
    if kind.gradients:
        # Reduced in backward, of the last micro-batch or of each; what was updated is gathered after it.
        return ValueRange(max(last, once - backward / part.count) + once, once * (part.count + 1), "assumed")
    return ValueRange(max(2 * last, 2 * once - backward / part.count), 2 * once, "assumed")


def computed_ms(
    kind: ParallelStrategy, devices: Devices, part: DeviceShare, step: Step, fixed_share: float | None
) -> tuple[float, float]:
    """A step without communication, at best ("other" is shared out) and at worst (it is not).

    `fixed_share` of a micro-batch does not depend on its size; None leaves it between nothing and all.
    """
    ms = {phase: each or 0.0 for phase, each in step.breakdown_ms.items()}
    micro = sum(ms.get(phase, 0.0) for phase in PER_MICRO_BATCH)
    other, update = ms.get("other", 0.0), ms.get("optimizer", 0.0)
    rest = step.mean_ms - micro - other - update + (update / devices.num if kind.state else update)
    least, most = (0.0, 1.0) if fixed_share is None else (fixed_share, fixed_share)
    best, worst = (part.of_count * (each + (1 - each) * part.of_size) for each in (least, most))
    return rest + (micro + other) * best, rest + micro * worst + other
