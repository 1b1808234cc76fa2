"""Recorded fake steps: 3 GiB of weights, 3 GiB of gradients when all are there, 6 GiB of optimizer state."""

from __future__ import annotations

from autotune.model.recording import FitPeak, FitRecord, FitStep

GIB = 2**30


def peak(gradients, rest, casts=0):
    parts = {"weights": 3 * GIB, "gradients": gradients * GIB, "optimizer": 6 * GIB, "rest": int(rest * GIB)}
    parts["casts"] = int(casts * GIB)
    return FitPeak(sum(parts.values()), parts)


def step(
    samples=1,
    rest=10,
    update_rest=0,
    held_back=0,
    length=128,
    work=(),
    num_operators=100,
    casts=0,
    micro_batches=1,
    gradients=3,
):
    """A step whose backward peaks with `rest` GiB beside 1 GiB of gradients, its update with `update_rest` GiB beside
    `gradients` GiB."""
    peaks = {"forward and backward": peak(min(1, gradients), rest, casts), "optimizer": peak(gradients, update_rest)}
    reserved = max(one.bytes for one in peaks.values()) + int(held_back * GIB)
    return FitStep(samples, length, micro_batches, peaks, reserved, tuple(work), num_operators, 1.0)


def record(*steps, layer=1, outside=1, num_trained=3 * GIB // 4, trained_bytes=3 * GIB, **told):
    """What was recorded; the largest layer and what is outside of layers have so many GiB, None is unknown. The
    parameters are fp32 unless there are more of them."""
    sizes = [None if size is None else int(size * GIB) for size in (layer, outside)]
    told = {"compiles": False, "has_optimizer": True, **told}
    return FitRecord(
        steps,
        (),
        (),
        True,
        **told,
        largest_layer_bytes=sizes[0],
        outside_layers_bytes=sizes[1],
        num_trained=num_trained,
        trained_bytes=trained_bytes,
    )
