"""Starts as a test needs them."""

from __future__ import annotations

from autotune.model.verified import BEFORE, RunResult


def start(side: str = BEFORE, step_ms: float = 100.0, **fields) -> RunResult:
    """A start of ten steps after three, that took three seconds more than its steps."""
    given = {"steps": 10, "warmup": 3, "wall_s": 3.0 + 13 * step_ms / 1000, **fields}
    return RunResult(side=side, step_ms=step_ms, **given)
