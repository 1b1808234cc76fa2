"""What measuring needs beside the core: Linux, and the packages of the extra "train"."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec

from autotune.errors import UsageError

PACKAGES = {
    "numpy": "numpy",
    "optuna": "optuna",
    "psutil": "psutil",
    "pynvml": "nvidia-ml-py",
    "rich": "rich",
}
"""The packages of the extra, by the module of each that is imported."""

ELSEWHERE = "Here work: check, explain, rules, apply --diff, and report of a run that was measured elsewhere."


def check() -> None:
    """Raises UsageError where nothing can be measured: on another system, or without the packages."""
    if sys.platform != "linux":
        raise UsageError("measuring needs Linux", where=sys.platform, to_do=ELSEWHERE)
    check_packages()


def check_packages() -> None:
    """Raises UsageError that says what to install where a package of the extra is missing."""
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        what = f"packages for measuring are not installed: {', '.join(missing)}"
        command = f'{shlex.quote(sys.executable)} -m pip install "autotune-advisor[train]"'
        raise UsageError(what, where=sys.executable, to_do=f"Install them: {command}")
