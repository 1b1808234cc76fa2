"""The door to NVML: asks pynvml questions that a driver, a MIG slice or a version may not answer."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Nvml = Any
"""The pynvml module of nvidia-ml-py (12.535 or newer), or an object with the same functions."""

CLOCK_SM = 1
"""NVML_CLOCK_SM."""


def connect(load: Callable[[str], Nvml] = importlib.import_module) -> tuple[Nvml | None, str]:
    """The initialised pynvml, or None and the reason why there is none.

    NVML counts its initialisations; this process keeps one for its lifetime, so nobody needs to shut it down.
    """
    try:
        nvml = load("pynvml")
    except ImportError:
        return None, "pynvml (nvidia-ml-py) is not installed"
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return None, f"no NVIDIA driver: {error}"
    return nvml, ""


def ask(nvml: Nvml, name: str, *arguments: Any) -> Any | None:
    """What NVML function `name` answers; None where this pynvml, driver or device does not know it."""
    function = getattr(nvml, name, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None


def text(answer: Any | None) -> str | None:
    """A name as str: older pynvml versions answer bytes."""
    if answer is None:
        return None
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)


_REASONS = {
    0x4: "power cap",
    0x8: "hardware slow-down",
    0x20: "software thermal slow-down",
    0x40: "hardware thermal slow-down",
    0x80: "power brake",
}
_POWER_CAP = 0x4
_LOWERED = 0.95
"""Of the card's own power limit: below it somebody has lowered the limit."""


def clock_reasons(nvml: Nvml, handle: Any) -> int | None:
    """The bit mask of why the clock is below its maximum. Newer NVML says "event" for "throttle"."""
    mask = ask(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    if mask is None:
        mask = ask(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return None if mask is None else int(mask)


def slow_downs(mask: int) -> tuple[str, ...]:
    """The names of the thermal and power reasons in a mask (nvml.h: nvmlClocksEventReason*)."""
    return tuple(name for bit, name in _REASONS.items() if mask & bit)


def is_slowed(nvml: Nvml, handle: Any, mask: int) -> bool | None:
    """Whether a thermal or power reason holds the GPU back; None where NVML does not tell its power limits.

    The power cap alone is the normal state of a large GPU that multiplies matrices: an H100 does that at 1,100 to 1,500
    of its 1,980 MHz. It counts where somebody has lowered the limit.
    """
    reasons = mask & sum(_REASONS)
    if reasons != _POWER_CAP:
        return bool(reasons)
    limit = ask(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)
    own = ask(nvml, "nvmlDeviceGetPowerManagementDefaultLimit", handle)
    return limit < _LOWERED * own if limit and own else None
