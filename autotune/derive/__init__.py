"""Recording -> facts, observed settings and the step: arithmetic only, no input or output."""

from autotune.derive.assemble import derive, subjects

__all__ = ["derive", "subjects"]
