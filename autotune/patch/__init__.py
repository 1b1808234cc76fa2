"""Patches: planned as byte-exact edits, written all or none, and taken back."""

from autotune.patch.plan import plan
from autotune.patch.write import recover, undo, write

__all__ = ["plan", "recover", "undo", "write"]
