"""Installs that a fix asks for: the exact command, or why no published wheel fits. Offline, and pip is never run.

What wheels there are stands in installs.toml, with its sources. An answer is "cannot tell" wherever the table or the
machine leaves something open: a command is printed only when a wheel is known to fit.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from msgspec.structs import replace
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from autotune.errors import UsageError
from autotune.model.finding import Install
from autotune.model.scanned import Pin

Release = tuple[int, ...]

_NAMES = {
    "python": "Python",
    "torch_cuda": "the CUDA of torch",
    "driver_cuda": "the CUDA of the driver",
    "capability": "the GPU's compute capability",
}


def install(
    requirement: str,
    known: Mapping[str, Release],
    platform: str | None,
    *,
    python: str = "python",
    pins: Iterable[Pin] = (),
) -> Install:
    """How to install `requirement` ("flash-attn", "transformers>=4.42,<5") into the environment of `python`.

    `known` has the release of "python", of the packages by distribution name, of "torch_cuda" (what torch was built
    for), "driver_cuda" and "capability" (of the GPU); what is not known is absent. `platform` is as wheels name it,
    e.g. "linux_x86_64", None when it is not known. Of `pins`, the project's, those that the release does not meet are
    named: installing that file again would take it back. Raises UsageError for a text that is no requirement.
    """
    asked = _parse_requirement(requirement)
    package = canonicalize_name(asked.name)
    row = _table().get(package)
    if row is None:
        return Install(package, None, "", f"cannot tell: autotune has no data on the wheels of {package}")
    wheels = [wheel for wheel in row["wheels"] if not wheel["release"] or asked.specifier.contains(wheel["release"])]
    reasons = []
    for wheel in wheels:
        against = list(_against(wheel, row["seen"], known, platform))
        if not against:
            fitting = _fitting_install(package, wheel, row, known, python)
            return replace(fitting, why="; ".join([fitting.why, *_unmet_pins(package, wheel["release"], pins)]))
        reasons.append(against)
    return _not_fitting(requirement, package, row, reasons)


def _fitting_install(
    package: str, wheel: Mapping[str, Any], row: Any, known: Mapping[str, Release], python: str
) -> Install:
    pip = f"{shlex.quote(python)} -m pip"
    command = f"{pip} install {wheel['install'].format_map({'pip': pip, **_words(known)})}"
    needs = " and ".join(f"{_NAMES.get(name, name)} {_dotted_release(known[name])}" for name in wheel["needs"])
    return Install(package, True, command, f"a wheel for {needs} is published (as of {row['checked']})")


def _unmet_pins(package: str, release: str, pins: Iterable[Pin]) -> Iterator[str]:
    """What to say of the pins that `release` ("" for the one that is installed) does not meet."""
    for pin in pins:
        bound = _parse_requirement(pin.requirement)
        if release and canonicalize_name(bound.name) == package and not bound.specifier.contains(release):
            yield f"{pin.place} pins {pin.requirement}: change it too"


def _words(known: Mapping[str, Release]) -> dict[str, str]:
    """What the table's commands may name."""
    words = {name: _dotted_release(release) for name, release in known.items()}
    words.update((f"{name}_minor", _dotted_release(release[:2])) for name, release in known.items())
    words["python_tag"] = "cp" + "".join(map(str, known.get("python", ())[:2]))
    return words


def _not_fitting(requirement: str, package: str, row: Any, reasons: list[list[tuple[bool, str]]]) -> Install:
    """Cannot tell, where some wheel has nothing but open questions against it; otherwise no, by the nearest wheels."""
    undecided = [against for against in reasons if not any(is_certain for is_certain, _ in against)]
    if undecided:
        words = "; ".join(text for _, text in undecided[0])
        return Install(package, None, "", f"cannot tell: {words}. Otherwise: {row['otherwise']}")
    if not reasons:
        return Install(package, None, "", f"cannot tell: no release known to autotune matches {requirement}")
    certain = [tuple(text for is_certain, text in against if is_certain) for against in reasons]
    nearest = min(map(len, certain))
    words = "; or ".join(dict.fromkeys(" and ".join(texts) for texts in certain if len(texts) == nearest))
    return Install(package, False, "", f"no wheel fits: {words}. Otherwise: {row['otherwise']}")


def _against(
    wheel: Mapping[str, Any], seen: Mapping[str, str], known: Mapping[str, Release], platform: str | None
) -> Iterator[tuple[bool, str]]:
    """What speaks against a wheel, each with whether that is certain."""
    platforms = wheel.get("platforms", [platform])
    if platform is None and "platforms" in wheel:
        yield False, "the platform is not known"
    elif platform not in platforms:
        yield True, f"there are wheels for {' and '.join(platforms)} only, this is {platform}"
    for name, (first, last) in wheel["needs"].items():
        have, word = known.get(name), _NAMES.get(name, name)
        if have is None:
            yield False, f"{word} is not known"
        elif name in seen and _is_above(have, seen[name]):
            yield False, f"{word} {_dotted_release(have)} is newer than the table ({seen[name]})"
        elif have < Version(first).release or (last and _is_above(have, last)):
            yield True, f"it needs {word} {_range(first, last)}, not {_dotted_release(have)}"


def _range(first: str, last: str) -> str:
    if not last:
        return f"{first} or newer"
    return first if first == last else f"{first} to {last}"


def _is_above(have: Release, last: str) -> bool:
    limit = Version(last).release
    return have[: len(limit)] > limit


def _dotted_release(release: Release) -> str:
    return ".".join(map(str, release))


def _parse_requirement(requirement: str) -> Requirement:
    try:
        return Requirement(requirement)
    except InvalidRequirement as error:
        raise UsageError(
            "this is not a requirement", where=requirement, to_do='Write it like "transformers>=4.42,<5".'
        ) from error


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files("autotune.patch").joinpath("installs.toml").read_text(encoding="utf-8"))
