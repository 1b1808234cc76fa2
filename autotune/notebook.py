"""The watch in a notebook: `%load_ext autotune`, then `%%autotune` above a cell that trains."""

from __future__ import annotations

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
    with in_process.watch(_at(line)):
        ipython.run_cell(cell).raise_error()


def _at(line: str) -> tuple[int, ...]:
    words = shlex.split(line)
    if not words:
        return AT
    steps = words[1].split(",") if len(words) == 2 and words[0] == "--at" else []
    if not steps or not all(step.isdecimal() for step in steps):
        raise ValueError(USAGE)
    return tuple(sorted(map(int, steps)))
