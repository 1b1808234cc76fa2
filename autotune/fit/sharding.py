"""One card's part of the memory when several share weights, gradients or optimizer state.

Sources: torch.nn.parallel.DistributedDataParallel (buckets of the gradients' size, unless gradient_as_bucket_view), the
ZeRO paper's table 1, DeepSpeed's defaults (reduce and all-gather buckets of 5e8 elements) and FSDP (the layer that
computes and the one that is fetched ahead are whole, and so is what lies outside of the layers). FSDP 1 makes one flat
parameter of a layer (torch 2.13 distributed/fsdp/_flat_param.py): it has a gradient for all of it as soon as a part is
trained, and a whole one while micro-batches accumulate without a sync (no_sync, as Fabric does). Of a 16-bit model
DeepSpeed's optimizer keeps fp32 weights and state, and makes fp32 gradients for its update (deepspeed 0.18
runtime/zero/stage_1_and_2.py: single_partition_of_fp32_groups; stage3.py: fp32_partitioned_groups_flat).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from autotune.model.fitted import Sharding
from autotune.model.recording import FitPeak, FitRecord, FitStep

ZERO = (Sharding.ZERO_1, Sharding.ZERO_2, Sharding.ZERO_3)
"""What DeepSpeed divides."""

BUCKET_ELEMENTS = 500_000_000
"""DeepSpeed's reduce_bucket_size and allgather_bucket_size."""

UPDATE = "optimizer"
"""The phase in which temporary results are of the parameters' sizes, and shared out with them."""

FP32 = 4
"""Bytes of a number in DeepSpeed's optimizer."""

COPIES = "weights in fp32"
"""The part that DeepSpeed's optimizer keeps of a 16-bit model."""

MOST = 0.5
"""With gradients for less of the weights little is trained: an adapter."""

PREFETCHED = 2
"""Layers that are whole at once under FSDP: the one that computes, and the next."""


class Shards(Struct, frozen=True):
    """`num` cards, and what each keeps a part of."""

    num: int
    kind: Sharding

    @property
    def states(self) -> int:
        """Optimizer state is divided by this."""
        return 1 if self.kind is Sharding.DDP else self.num

    @property
    def gradients(self) -> int:
        return self.num if self.kind is Sharding.ZERO_2 or self.weights > 1 else 1

    @property
    def weights(self) -> int:
        return self.num if self.kind in (Sharding.ZERO_3, Sharding.FSDP, Sharding.FSDP_1) else 1


class PhasePeak(Struct, frozen=True):
    """The peak of one phase on one card: its bytes, and the parts of them that are the script's own tensors."""

    num_bytes: float
    parts: Mapping[str, int]


def phase_peaks(step: FitStep, record: FitRecord, shards: Shards | None) -> dict[str, PhasePeak]:
    """The peaks of one card by phase, without the buffers that `buffers` gives."""
    if shards is None:
        return {
            phase: PhasePeak(
                peak.bytes,
                {
                    "weights": peak.parts["weights"],
                    "gradients": peak.parts["gradients"],
                    "optimizer state": peak.parts["optimizer"],
                    "activations": rest_of(peak),
                },
            )
            for phase, peak in step.peaks.items()
        }
    gradients = gradient_bytes(step)
    wider, copies = _of_deepspeed(record, shards)
    found = {}
    for phase, peak in step.peaks.items():
        is_update = phase == UPDATE
        whole = 0.0 if is_update else _gathered(step, record, shards, peak)
        # Of what it divides a wrapper gathers the layer that computes in the lower type, and autocast copies nothing.
        rest = peak.parts["rest"] if shards.weights > 1 else rest_of(peak)
        parts = {
            "weights": peak.parts["weights"] / shards.weights + whole,
            "gradients": _gradients(step, record, shards, peak),
            "optimizer state": wider * peak.parts["optimizer"] / shards.states,
            "activations": (wider * rest / shards.states + copies) if is_update else rest,
        }
        if copies:
            parts[COPIES] = copies
        total = sum(parts.values()) + _copies(gradients, shards)
        found[phase] = PhasePeak(total, {name: int(size) for name, size in parts.items()})
    return found


def _of_deepspeed(record: FitRecord, shards: Shards) -> tuple[float, float]:
    """How much wider DeepSpeed's optimizer is than what is trained, and the bytes of one fp32 copy of a card's part.

    The update has two: of the weights, which stay, and of the gradients.
    """
    if not keeps_fp32(record, shards.kind):
        return 1.0, 0.0
    return FP32 * record.num_trained / record.trained_bytes, FP32 * record.num_trained / shards.num


def keeps_fp32(record: FitRecord, kind: Sharding | None) -> bool:
    """Whether DeepSpeed's optimizer keeps weights and state in fp32 beside 16-bit parameters."""
    return kind in ZERO and 0 < record.trained_bytes < FP32 * record.num_trained


def gradient_bytes(step: FitStep) -> int:
    """Bytes of all gradients of a step."""
    return max(one.parts["gradients"] for one in step.peaks.values())


def _copies(gradients: int, shards: Shards) -> float:
    """DDP's buckets, which are always there."""
    return float(gradients) if shards.kind is Sharding.DDP else 0.0


def buffers(step: FitStep, shards: Shards | None) -> float:
    """What comes on top at most: DeepSpeed's buckets, as if in fp32."""
    gradients = gradient_bytes(step)
    if shards is not None and shards.kind in ZERO:
        return 2.0 * min(gradients, BUCKET_ELEMENTS * 4)
    return 0.0


def _gathered(step: FitStep, record: FitRecord, shards: Shards, peak: FitPeak) -> float:
    """Whole weights of the layers that compute, and the gradients that one makes; of all where no layers are known.

    Where autocast casts the weights, in half of their bytes. A model of which little trains makes few gradients: only
    a flat parameter has whole ones, which `_gradients` counts while they accumulate.
    """
    if shards.weights == 1:
        return 0.0
    width = 0.5 if peak.parts["casts"] else 1.0
    trains_most = gradient_bytes(step) > MOST * peak.parts["weights"]
    is_flat = shards.kind is Sharding.FSDP_1
    of_layer = step.micro_batches == 1 if is_flat else trains_most
    if record.largest_layer_bytes is None or record.outside_layers_bytes is None:
        return (1 + of_layer) * width * peak.parts["weights"]
    layers = (PREFETCHED + of_layer) * record.largest_layer_bytes
    return width * (layers + (1 + trains_most) * record.outside_layers_bytes)


def _gradients(step: FitStep, record: FitRecord, shards: Shards, peak: FitPeak) -> float:
    """What a card has of the gradients: of a flat parameter of FSDP 1 all, and whole while micro-batches accumulate."""
    if shards.kind is not Sharding.FSDP_1:
        return peak.parts["gradients"] / shards.gradients
    flat = max(gradient_bytes(step), peak.parts["weights"] - (record.outside_layers_bytes or 0))
    return flat / (shards.gradients if step.micro_batches == 1 else 1)


def rest_of(peak: FitPeak) -> int:
    """Activations, batches and results of a step on one card, with autocast's copies of the weights."""
    return peak.parts["rest"] + peak.parts["casts"]
