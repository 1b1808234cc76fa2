from __future__ import annotations

from msgspec.structs import replace

from autotune.model.report import DeviceCollective, DeviceProfile
from autotune.report.text import device

PROFILE = DeviceProfile(
    rank=0,
    steps=3,
    step_ms=100.0,
    busy_share=0.8,
    communication_share=0.38,
    exposed_share=0.2,
    collectives=(
        DeviceCollective("all-to-all", 0.14),
        DeviceCollective("all-reduce", 0.06),
        DeviceCollective("x", 0.001),
    ),
    kernels_per_step=10.0,
    mean_kernel_us=50.0,
    streams=2,
    idle=(),
    kernels=(),
    copies=(),
    syncs=(),
)


def said(made: DeviceProfile) -> str:
    return " ".join(" ".join(line.text for line in device._communication(made, 80)).split())


def test_exposed_communication_by_collective() -> None:
    assert said(PROFILE) == (
        "20 % busy with communication alone (exposed: all-to-all 14 %, all-reduce 6.0 %); 18 % more is hidden behind "
        "other kernels"
    )


def test_all_of_it_is_hidden() -> None:
    hidden = replace(PROFILE, exposed_share=0.0, collectives=(DeviceCollective("all-reduce", 0.0),))
    assert said(hidden) == "0.0 % busy with communication alone (exposed); 38 % more is hidden behind other kernels"
    assert said(replace(PROFILE, communication_share=0.0, exposed_share=0.0, collectives=())) == ""
