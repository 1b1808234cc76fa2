"""Patches: planned as byte-exact edits, written all or none, and taken back."""

from autotune.patch.dependencies import coupled
from autotune.patch.plan import plan
from autotune.patch.write import is_interrupted, recover, undo, write

__all__ = ["coupled", "is_interrupted", "plan", "recover", "undo", "write"]
