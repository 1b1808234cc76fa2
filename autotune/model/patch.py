"""A patch: what changes, and the edits of files that realise it. Its file is documented in docs/patch-file.md."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.model.evidence import Span, Value
from autotune.model.rule import Effect


@dataclass(frozen=True, slots=True)
class Edit:
    """One splice: in `file` (relative to the patch's root) the bytes of `span` are `old` and become `new`.

    `sha256` is of the whole file before the patch. `key` is where the value stands ("train.micro_batch_size"); an
    insertion has an empty span and no old text.
    """

    file: str
    sha256: str
    key: str
    span: Span
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PatchChange:
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


@dataclass(frozen=True, slots=True)
class Patch:
    """The changes of one run's recommendations; `root` is the folder that its files are relative to."""

    root: str
    run: str
    command: tuple[str, ...]
    changes: tuple[PatchChange, ...]
