"""Patches: planned as byte-exact edits, written all or none, and taken back."""

from autotune.patch.dependencies import with_dependencies
from autotune.patch.plan import plan
from autotune.patch.write import is_interrupted, recover, undo, write

__all__ = ["is_interrupted", "plan", "recover", "undo", "with_dependencies", "write"]
