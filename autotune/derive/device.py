"""The device and what its kernels did. The kernel facts come from a CUDA profiler window and are absent without it."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.device_profile import idle_shares
from autotune.derive.kernels import shares
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `device.*`."""
    device = view.recording.device
    if device is None:
        return
    yield Fact("device.type", RUN, device["type"])
    capability = device.get("capability")
    if capability:
        yield Fact("device.capability", RUN, tuple(int(part) for part in capability.split(".")))
    for name, value in {**shares(view), **idle_shares(view)}.items():
        if value is not None:
            yield Fact(f"device.{name}", RUN, value)
