"""The watch in a notebook: `%load_ext autotune`, then `%%autotune` above a cell that trains."""

from __future__ import annotations

import importlib
import shlex
from typing import Any

from autotune import in_process

AT = (10, 50, 500, 5000)
"""A cell is shorter than a run."""

USAGE = "usage: %%autotune [--at STEP,STEP,...]"


def load_ipython_extension(ipython: Any) -> None:
    """Register the magic; called by `%load_ext autotune`."""
    ipython.register_magic_function(lambda line, cell: run_cell(ipython, line, cell), "cell", "autotune")


def run_cell(ipython: Any, line: str, cell: str) -> None:
    """Run the cell in the user's namespace under watch. What it says goes to stderr, below the cell."""
    shown_in_a_line: type[Exception] = importlib.import_module("IPython.core.error").UsageError
    at = _at(line)
    if at is None:
        raise shown_in_a_line(USAGE)
    try:
        with in_process.watch(at):
            ipython.run_cell(cell).raise_error()
    except Exception as error:  # IPython has shown it with its traceback
        raise shown_in_a_line(f"the cell ended with {type(error).__name__}") from None


def _at(line: str) -> tuple[int, ...] | None:
    """The steps that are asked for; None for what is no such option."""
    words = shlex.split(line)
    if not words:
        return AT
    steps = words[1].split(",") if len(words) == 2 and words[0] == "--at" else []
    return tuple(sorted(map(int, steps))) if steps and all(step.isdecimal() for step in steps) else None
