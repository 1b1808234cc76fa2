"""What-if: products of fp32 numbers run on tensor cores, as TF32 or under bf16 autocast."""

from __future__ import annotations

import math

from msgspec import Struct

from autotune.catalogue.devices import ProductRatios, product_ratios
from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.predict.gain_inputs import Arguments, gain, number, step_error

LEAST_OF_PEAK = 0.5
"""Of the ratio of the peak rates, products gain as much at least; it is also what the GeForce cards have."""

REST_RATIO = (1.0, 2.0)
"""Of all other kernels, under autocast: activations take half the memory, parameters and their update as much."""

ATTENTION_RATIO = (2.0, 8.0)
"""Of fused attention in fp32, which flash attention in bf16 takes the place of."""

LAUNCH_US = (10.0, 30.0)
"""A kernel takes the host as long: of torch's operators alone, and with the user's Python around them."""


class _Parts(Struct, frozen=True):
    """Shares of the measured step, and what the host may need to launch its kernels, at least and at most."""

    idle: float
    products: float
    attention: float
    rest: float
    launches: tuple[float, float]


def tensor_cores(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """The step with its fp32 products, and for bf16 all kernels, faster by ratios that are known of the GPU.

    `to` is "tf32" or "bf16". The ratio of products is between half of that of the peak rates and all of it; under bf16
    all other kernels take between half their time and all of it. The host's time to launch the kernels bounds the step
    from below. Of a GPU whose ratios are not known the gain is at most what the fastest possible products would save.
    None without the shares of the kernels.
    """
    parts = _parts(evidence, subject)
    if parts is None:
        return None
    is_bf16 = arguments["to"] == "bf16"
    rest, attention = (REST_RATIO, ATTENTION_RATIO) if is_bf16 else ((1.0, 1.0), (1.0, 1.0))
    ratios = _ratios(evidence)
    if ratios is None:
        left = parts.idle + parts.rest / rest[1] + (0.0 if is_bf16 else parts.attention)
        return gain(evidence, subject, 1 / left, (1.0, 1 / left), "bound") if 0 < left < 1 else None
    fastest = ratios.bf16 if is_bf16 else ratios.tf32
    products = (max(1.0, fastest * LEAST_OF_PEAK), fastest)
    slow, fast = (
        parts.idle + parts.products / products[end] + parts.attention / attention[end] + parts.rest / rest[end]
        for end in (0, 1)
    )
    slow, middle = max(slow, min(1.0, parts.launches[1])), max(math.sqrt(slow * fast), min(1.0, parts.launches[0]))
    noise = step_error(evidence, 0.0)
    return gain(evidence, subject, 1 / middle, ((1 - noise) / slow, (1 + noise) / fast), "modelled")


def _ratios(evidence: Evidence) -> ProductRatios | None:
    """Of the peak rates of the card (catalogue/devices.toml), or of the fastest of its compute capability."""
    name, capability = evidence.lookup(RUN, "machine.gpu_name"), evidence.lookup(RUN, "device.capability")
    return product_ratios(
        name if isinstance(name, str) else None, capability if isinstance(capability, tuple) else None
    )


def _parts(evidence: Evidence, subject: str) -> _Parts | None:
    names = ("device.busy_share", "device.gemm_fp32_share", "device.mean_kernel_us")
    busy, products, kernel_us = (number(evidence, subject, name) for name in names)
    if not busy or not products:
        return None
    # Written out, its products are among the fp32 products, and its softmax stays fp32.
    is_fused = evidence.lookup(subject, "device.attention_backend") not in (None, "math")
    attention = (number(evidence, subject, "device.attention_share") or 0.0) if is_fused else 0.0
    per_us = busy / kernel_us if kernel_us else 0.0
    return _Parts(
        idle=1 - busy,
        products=busy * products,
        attention=busy * attention,
        rest=busy * max(0.0, 1 - products - attention),
        launches=(per_us * LAUNCH_US[0], per_us * LAUNCH_US[1]),
    )
