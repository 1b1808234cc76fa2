"""What measuring needs beside the core: Linux, and the packages of the extra "train"."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from importlib.util import find_spec

from autotune.errors import UsageError

PACKAGES = {
    "jinja2": "jinja2",
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


def check_packages(modules: Iterable[str] = tuple(PACKAGES)) -> None:
    """Raises UsageError that says what to install where a package of the extra is missing."""
    missing = [PACKAGES[module] for module in modules if find_spec(module) is None]
    if missing:
        what = f"packages of the extra are not installed: {', '.join(missing)}"
        command = f'{shlex.quote(sys.executable)} -m pip install "autotune-advisor[train]"'
        raise UsageError(what, where=sys.executable, to_do=f"Install them: {command}")
