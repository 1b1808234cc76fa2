"""The watch from inside a script: a context manager, and what the callbacks and the notebook share.

The probe is loaded as for every other process, once and under its own name, and imports nothing of this package.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = Path(__file__).parent / "probe"
WATCH = "_autotune_probe.watch.watch"
"""The probe's module that watches, in a process that has it."""

OF_A_MEASUREMENT = "AUTOTUNE_REQUEST"
"""Set where this process is measured by `diagnose` and its like: then there is nothing to watch."""


@contextmanager
def watch(at: tuple[int, ...] | None = None) -> Iterator[None]:
    """Watch the optimizer steps that are made inside; `at` are the steps of its first windows (50, 500, 5000).

    Where AUTOTUNE_WATCH watches the whole process, or `diagnose` measures it, this does nothing more.
    """
    started = begin(at)
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        if started:
            _watch().end(error)


def begin(at: tuple[int, ...] | None = None) -> bool:
    """Begin to watch this process, unless it is measured or watched already; whether it was begun."""
    if os.environ.get(OF_A_MEASUREMENT) or _watch().current() is not None:
        return False
    _watch().begin(at=at)
    return True


def end() -> None:
    """End the watch of this process; its summary goes with it."""
    _watch().end()


def summary() -> dict[str, float]:
    """The figures of the watch of this process for a tracker, in one flat dictionary; docs/watch.md has their units.

    Empty where nothing is watched, and before the first step. What is not known yet is absent.
    """
    current = _current()
    figures: dict[str, float] = current.summary() if current is not None else {}
    return figures


def drift() -> list[str]:
    """What has drifted in the run of this process, as sentences."""
    current = _current()
    return [row["text"] for row in current.drift] if current is not None else []


def _current() -> Any:
    """The watch of this process, None without one; nothing is imported."""
    module = None if os.environ.get(OF_A_MEASUREMENT) else sys.modules.get(WATCH)
    return module.current() if module is not None else None


def _watch() -> Any:
    """The probe's module that watches; torch is imported with it."""
    if WATCH in sys.modules:
        return sys.modules[WATCH]
    import importlib

    importlib.import_module("torch")
    _loader()(str(PACKAGE), lambda probe: None)
    return importlib.import_module(WATCH)


def _loader() -> Callable[[str, Callable[[ModuleType], object]], None]:
    path = PACKAGE / "load.py"
    names: dict[str, Any] = {"__name__": "_autotune_load"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    load: Callable[[str, Callable[[ModuleType], object]], None] = names["load"]
    return load
