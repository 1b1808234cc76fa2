"""What `apply` would write, and what `undo` took back."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from autotune.model.finding import Gain
from autotune.model.patch import PatchChange


class ApplyPlan(Struct, frozen=True):
    """What one `apply` would do: write `files` (path, before, after), and print the rest."""

    root: Path
    run: str
    title: str
    chosen: tuple[PatchChange, ...]
    left: tuple[tuple[PatchChange, str], ...]
    """The changes that are not made, with the reason."""

    files: tuple[tuple[Path, bytes, bytes], ...]
    typed: str = ""
    """What the chosen changes give on the command line."""

    command: str = ""
    """The whole command with `typed` in it; "" where the run did not store all of it."""

    moved: tuple[str, ...] = ()
    """What was found elsewhere in files that changed since."""

    doubt: str = ""
    """Why nobody should write it unseen; "" for a patch that autotune made here, of the project in which it is
    applied."""

    of: str = ""
    """The command of `run`, which proposed the changes, without secrets."""

    gain: Gain | None = None
    """Of the chosen changes together; None where it is not known, or is that of a single change."""


UndoneState = Literal["reverted", "changed since", "edits kept", "restored before"]
"""What became of a file: its bytes from before; left, for it changed after a crash; the patch taken out beside later
edits; it had no patch any more."""


class UndoneFile(Struct, frozen=True):
    """A file of the patch, and where its bytes from before the patch are stored."""

    path: Path
    state: UndoneState
    before: Path


class Undone(Struct, frozen=True):
    """The patch that was taken back, of the project at `root`."""

    root: Path
    number: int
    title: str
    files: tuple[UndoneFile, ...]
    newer: str = ""
    """How a patch that was written after it into another project is taken back; "" where there is none."""
