from __future__ import annotations

import pytest

from autotune.machine import wheels

GLIBC = ["manylinux_2_39_x86_64", "manylinux1_x86_64", "linux_x86_64"]
MUSL = ["musllinux_1_2_aarch64", "musllinux_1_1_aarch64", "linux_aarch64"]


@pytest.mark.parametrize(
    ("system", "tags", "expected"),
    [
        ("linux-x86_64", GLIBC, "linux_x86_64"),
        ("linux-aarch64", MUSL, "musllinux_1_2_aarch64"),
        ("macosx-14.0-arm64", ["macosx_14_0_arm64", "macosx_13_0_arm64"], "macosx_14_0_arm64"),
        ("win-amd64", ["win_amd64"], "win_amd64"),
    ],
)
def test_platform(system: str, tags: list[str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels.sysconfig, "get_platform", lambda: system)
    monkeypatch.setattr(wheels, "platform_tags", lambda: iter(tags))
    assert wheels.platform() == expected
    assert [(fact.name, fact.value) for fact in wheels.facts()] == [("machine.platform", expected)]
