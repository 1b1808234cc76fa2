"""Starts torch's profiler without a word of its own."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOGGED, QUIET = "KINETO_LOG_LEVEL", "99"


def start(*, cuda: bool, shapes: bool) -> Any:
    """A profiler that records operations, of the CUDA device too, and the types of what they read where `shapes`.

    Raises where another one records already. Kineto would tell the script's own stderr when it starts and stops.
    """
    from torch.profiler import ProfilerActivity, profile

    os.environ.setdefault(LOGGED, QUIET)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    profiler = profile(activities=activities, record_shapes=shapes, with_stack=False)
    profiler.start()
    return profiler
