"""Recording -> facts, observed settings and the step: arithmetic only, no input or output."""

from autotune.derive.assemble import derive

__all__ = ["derive"]
