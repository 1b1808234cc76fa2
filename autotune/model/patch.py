"""A patch: what changes, and the edits of files that realise it. Its file is documented in docs/patch-file.md."""

from __future__ import annotations

from msgspec import Struct

from autotune.model.evidence import Value
from autotune.model.rule import Effect


class Edit(Struct, frozen=True):
    """One value of a file that becomes another one, named and not counted: `patch.resolve` finds its bytes."""

    file: str
    """Relative to the root of the patch; `TYPED` for a value of the command line, which is in no file."""
    key: str
    """Where the value stands: "train.lr" in a config, "DataLoader.num_workers" in a script; docs/patch-file.md."""
    old: str
    """The text that stands there; "" where the key is missing and is added."""
    new: str
    """The text that replaces it; of a key that is added the literal of its value."""
    occurrence: int = 1
    """Which of the places of that key, from 1, in the order of the file."""
    sha256: str = ""
    """Of the file for which the edit was made; "" where a person wrote the edit."""


class PatchChange(Struct, frozen=True):
    """One setting to change and how. `edits` is empty where a person has to do it: then `by_hand` says what.

    `old` is None where the setting was not given. `gain` is the report's words for what the change brings. `needs` are
    the settings of other changes of the patch without which this one is not written.
    """

    setting: str
    subject: str
    old: Value | None
    new: Value
    rules: tuple[str, ...]
    effect: Effect
    gain: str = ""
    edits: tuple[Edit, ...] = ()
    by_hand: str = ""
    needs: tuple[str, ...] = ()


class Patch(Struct, frozen=True):
    """The changes of one run's recommendations; `root` is the folder that its files are relative to."""

    root: str
    run: str
    command: tuple[str, ...]
    changes: tuple[PatchChange, ...]
