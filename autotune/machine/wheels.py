"""How wheels name this machine: which of them can be installed here."""

from __future__ import annotations

import sysconfig

from packaging.tags import platform_tags

from autotune.model.evidence import RUN, Fact


def facts() -> tuple[Fact, ...]:
    return (Fact("machine.platform", RUN, platform()),)


def platform() -> str:
    """E.g. "linux_x86_64", "win_amd64", "macosx_14_0_arm64"; "musllinux_1_2_x86_64" on a Linux without glibc.

    Source: the platform tags of PEP 600 and PEP 656.
    """
    musl = next((tag for tag in platform_tags() if tag.startswith("musllinux")), None)
    return musl or sysconfig.get_platform().replace("-", "_").replace(".", "_")
