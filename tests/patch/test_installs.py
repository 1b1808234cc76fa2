from __future__ import annotations

import re
import tomllib
from importlib import resources

import pytest
from packaging.version import Version

from autotune.errors import UsageError
from autotune.model.scanned import Pin
from autotune.patch.installs import install

LINUX = "linux_x86_64"
KNOWN = {
    "python": (3, 11, 4),
    "torch": (2, 8, 0),
    "torch_cuda": (12, 8),
    "driver_cuda": (12, 8),
    "capability": (9, 0),
    "transformers": (4, 41, 2),
}
TABLE = tomllib.loads(resources.files("autotune.patch").joinpath("installs.toml").read_text(encoding="utf-8"))
RELEASES = "https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/flash_attn-2.8.3"
BUILT = "python -m pip install packaging setuptools wheel && python -m pip install --no-build-isolation "


def asked(requirement, platform=LINUX, *, without=(), **changed):
    known = {name: release for name, release in {**KNOWN, **changed}.items() if name not in without}
    return install(requirement, known, platform)


@pytest.mark.parametrize(
    ("requirement", "changed", "command"),
    [
        (
            "flash-attn",
            {},
            f"python -m pip install {RELEASES}+cu12torch2.8cxx11abiTRUE-cp311-cp311-linux_x86_64.whl",
        ),
        (
            "Flash_Attn",
            {"torch": (2, 7, 1), "python": (3, 13, 0), "torch_cuda": (12, 9, 1)},
            f"python -m pip install {RELEASES}+cu12torch2.7cxx11abiTRUE-cp313-cp313-linux_x86_64.whl",
        ),
        ("flash-attn", {"torch": (2, 5, 1)}, f"{BUILT}flash-attn==2.8.3"),
        ("flash-attn", {"torch": (2, 4, 1)}, f"{BUILT}flash-attn==2.8.3"),
        ("kernels", {"transformers": (5, 23, 0)}, 'python -m pip install "transformers[kernels]==5.23.0"'),
        ("liger-kernel", {}, "python -m pip install liger-kernel==0.8.5"),
        ("transformers>=4.42,<5", {}, "python -m pip install transformers==4.57.6"),
        ("transformers>=4.42", {"torch": (2, 1, 0)}, "python -m pip install transformers==4.50.3"),
        ("transformers>=5", {"python": (3, 10, 2)}, "python -m pip install transformers==5.16.1"),
        ("torch", {}, "python -m pip install torch==2.14.0 --index-url https://download.pytorch.org/whl/cu126"),
        (
            "torch",
            {"driver_cuda": (12, 0)},
            "python -m pip install torch==2.14.0 --index-url https://download.pytorch.org/whl/cu126",
        ),
        (
            "torch>=2.6",
            {"driver_cuda": (13, 1), "capability": (12, 0)},
            "python -m pip install torch==2.14.0 --index-url https://download.pytorch.org/whl/cu130",
        ),
    ],
)
def test_a_wheel_that_fits(requirement, changed, command):
    found = asked(requirement, **changed)
    assert (found.fits, found.command) == (True, command)
    assert "published (as of 20" in found.why


@pytest.mark.parametrize(
    ("requirement", "changed", "why"),
    [
        ("flash-attn", {"platform": "win_amd64"}, "there are wheels for linux_x86_64 only, this is win_amd64"),
        ("flash-attn", {"capability": (7, 5)}, "it needs the GPU's compute capability 8.0 or newer, not 7.5"),
        ("flash-attn", {"torch_cuda": (11, 8)}, "it needs the CUDA of torch 12, not 11.8"),
        ("flash-attn", {"torch": (2, 3, 1)}, "not 2.3.1"),
        ("flash-attn", {"torch": (2, 4, 1), "python": (3, 13, 0)}, "not "),
        ("kernels", {}, "it needs transformers 5.10 or newer, not 4.41.2"),
        ("liger-kernel", {"platform": "macosx_14_0_arm64"}, "this is macosx_14_0_arm64"),
        ("transformers>=5", {"python": (3, 9, 1)}, "it needs Python 3.10 or newer, not 3.9.1"),
        ("torch", {"capability": (12, 0)}, "it needs the CUDA of the driver 13.0 or newer, not 12.8"),
        ("torch", {"python": (3, 9, 1)}, "it needs Python 3.10 to 3.14, not 3.9.1"),
        # What is certain decides, whatever else is not known.
        ("flash-attn", {"capability": (7, 5), "without": ("torch_cuda",)}, "8.0 or newer"),
    ],
)
def test_no_wheel_fits(requirement, changed, why):
    found = asked(requirement, **changed)
    assert (found.fits, found.command) == (False, "")
    assert found.why.startswith("no wheel fits: ")
    assert why in found.why
    assert "is not known" not in found.why


@pytest.mark.parametrize(
    ("requirement", "changed", "why"),
    [
        ("flash-attn", {"torch": (2, 13, 0)}, "torch 2.13.0 is newer than the table (2.8)"),
        ("flash-attn", {"torch_cuda": (13, 0)}, "the CUDA of torch 13.0 is newer than the table (12.9)"),
        ("flash-attn", {"python": (3, 14, 0)}, "Python 3.14.0 is newer than the table (3.13)"),
        ("flash-attn", {"without": ("torch_cuda",)}, "the CUDA of torch is not known"),
        ("kernels", {"transformers": (5, 24, 0)}, "transformers 5.24.0 is newer than the table (5.23)"),
        ("flash-attn", {"platform": None}, "the platform is not known"),
        ("kernels", {"without": ("transformers",)}, "transformers is not known"),
        ("torch", {"without": ("driver_cuda",)}, "the CUDA of the driver is not known"),
        ("transformers>=6", {}, "no release known to autotune matches transformers>=6"),
        ("flash-attn==2.6.3", {}, "no release known to autotune matches flash-attn==2.6.3"),
        ("xformers", {}, "no data on the wheels of xformers"),
    ],
)
def test_what_nobody_can_tell_from_here(requirement, changed, why):
    found = asked(requirement, **changed)
    assert (found.fits, found.command) == (None, "")
    assert found.why.startswith("cannot tell: ")
    assert why in found.why


def test_a_wheel_for_every_platform_does_not_ask_for_it():
    assert asked("transformers<5", None).fits


def test_the_interpreter_is_quoted():
    found = install("liger-kernel", KNOWN, LINUX, python="/my env/bin/python")
    assert found.command == "'/my env/bin/python' -m pip install liger-kernel==0.8.5"


def test_no_requirement():
    with pytest.raises(UsageError, match="this is not a requirement"):
        asked("flash attn please")


@pytest.mark.parametrize("package", TABLE)
def test_the_table_is_sound(package):
    row = TABLE[package]
    assert row["source"]
    assert row["otherwise"]
    for wheel in row["wheels"]:
        for first, last in wheel["needs"].values():
            assert not last or Version(first) <= Version(last)
        named = set(re.findall(r"{(\w+?)(?:_minor)?}", wheel["install"])) - {"pip", "python_tag"}
        assert named <= set(wheel["needs"]), "a command may only name what its wheel needs: the rest may not be known"


@pytest.mark.parametrize(
    ("asked_for", "pin", "is_named"),
    [
        ("transformers>=4.42,<5", "transformers==4.40", True),
        ("transformers>=4.42,<5", "Transformers<4.57", True),
        ("transformers>=4.42,<5", "transformers~=4.57.0", False),
        ("transformers>=4.42,<5", "transformers<5", False),
        ("transformers>=4.42,<5", "torch==2.4.0", False),
        ("flash-attn", "flash_attn==2.6.3", True),
    ],
)
def test_a_pin_that_the_release_does_not_meet_is_named(asked_for: str, pin: str, is_named: bool) -> None:
    found = install(asked_for, KNOWN, LINUX, pins=[Pin("trl==0.9", "a.txt:1"), Pin(pin, "requirements.txt:3")])
    assert found.command
    told = found.why.endswith(f"; requirements.txt:3 pins {pin}: change it too")
    assert (told, "a.txt" in found.why) == (is_named, False)


def test_no_pin_is_named_where_the_release_stays_or_nothing_is_installed() -> None:
    pins = [Pin("kernels==0.1", "requirements.txt:1"), Pin("transformers==5.0", "requirements.txt:2")]
    stays = install("kernels", {**KNOWN, "transformers": (5, 23, 0)}, LINUX, pins=pins)
    assert stays.command and "pins" not in stays.why
    none = install("transformers>=99", KNOWN, LINUX, pins=pins)
    assert not none.command and "requirements.txt" not in none.why
