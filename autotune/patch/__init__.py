"""Patches: planned as byte-exact edits, written all or none, and taken back."""

from autotune.patch.write import recover, undo, write

__all__ = ["recover", "undo", "write"]
