"""The two sides of a verification: the same command, with the files and words of before and of after."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.invocation import typed
from autotune.model.finding import Gain
from autotune.model.patch import Edit, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.model.verified import AFTER, BEFORE
from autotune.patch.command_line import is_too_complex, line_at, with_values
from autotune.patch.present import PresentFile


class Sides(Struct, frozen=True):
    """`words` are the command of each side; `files` the contents of each side where they differ, by real path.

    `against` says in words what is compared; `changes` are what differs and `predicted` what they should bring.
    `beside` says what else could have been meant, and how to ask for it; "" where nothing could. `apply_command` shows
    the edits that would make the second side of the files, `undo_command` makes them the first one again; "" where
    there are none.
    """

    against: str
    words: Mapping[str, tuple[str, ...]]
    files: Mapping[str, Mapping[Path, bytes]]
    changes: tuple[PatchChange, ...] = ()
    predicted: Gain | None = None
    beside: str = ""
    apply_command: str = ""
    undo_command: str = ""

    @property
    def edited(self) -> frozenset[Path]:
        return frozenset(self.files[BEFORE])

    @property
    def effect(self) -> Effect | None:
        """The gravest effect of the changes; None when nobody said."""
        return max((change.effect for change in self.changes), key=lambda effect: effect.rank, default=None)


def patched(
    words: Sequence[str], changes: Sequence[PatchChange], files: Sequence[tuple[Path, bytes, bytes]], against: str
) -> Sides:
    """A patch that was not written yet: `files` are (path, before, after). Raises UsageError when it has no edits.

    What it types may be in `words` already: then the first side has them as they were before.
    """
    typed = _typed(changes)
    if not files and not typed:
        raise UsageError(
            "this patch writes nothing, so there is nothing to verify",
            where=against,
            to_do="`autotune apply --diff` says why; --allow altering includes more of its changes.",
        )
    return Sides(
        against,
        {BEFORE: _untyped(words, typed), AFTER: with_values(words, typed)},
        {
            BEFORE: {path.resolve(): before for path, before, _ in files},
            AFTER: {path.resolve(): after for path, _, after in files},
        },
        tuple(changes),
    )


def written(words: Sequence[str], number: int, files: Sequence[PresentFile], changes: Sequence[PatchChange]) -> Sides:
    """Patch `number`, which is in its `files` already: as they are now, against the same without its lines.

    Where `words` have what `changes` type, the first side has them as they were before.
    """
    return Sides(
        _of_written(number, [one.path.name for one in files if one.is_edited]),
        {BEFORE: _untyped(words, _typed(changes)), AFTER: tuple(words)},
        {BEFORE: {one.path: one.without for one in files}, AFTER: {one.path: one.now for one in files}},
        tuple(changes),
    )


def _of_written(number: int, edited: Sequence[str]) -> str:
    """What is compared; `edited` are the names of files that are not as the patch left them."""
    if not edited:
        return f"patch {number} (applied)"
    they = "was edited since: as it is now" if len(edited) == 1 else "were edited since: as they are now"
    return f"patch {number} (applied); {', '.join(edited)} {they}, against the same without the patch's lines"


def other(words: Sequence[str], script: str) -> Sides:
    """Another script in the place of the first one that the command names."""
    place = next((at for at, word in enumerate(words) if word.endswith(".py")), None)
    if place is None:
        raise UsageError("the command names no .py file to replace", where="--against")
    after = (*words[:place], script, *words[place + 1 :])
    return Sides(f"{words[place]} against {script}", {BEFORE: tuple(words), AFTER: after}, {BEFORE: {}, AFTER: {}})


def is_typed(words: Sequence[str], change: PatchChange) -> bool:
    """Whether a command has a value that the change types."""
    return any(_has(words, edit) for edit in _typed([change]))


def _typed(changes: Sequence[PatchChange]) -> list[Edit]:
    return [edit for change in changes for edit in change.edits if edit.file == TYPED]


def _has(words: Sequence[str], edit: Edit) -> bool:
    try:
        return with_values(words, [edit]) == tuple(words)
    except UsageError:
        return False


def _untyped(words: Sequence[str], edits: Sequence[Edit]) -> tuple[str, ...]:
    """The words before these edits were typed; those that were not are left alone."""
    return reduce(_without, [edit for edit in edits if _has(words, edit)], tuple(words))


def _without(words: tuple[str, ...], edit: Edit) -> tuple[str, ...]:
    """The old value in the place of the new one; nothing where there was none, and a flag again that was taken away."""
    line = line_at(words)
    if line is not None and not (edit.old and edit.new):
        if is_too_complex(words[line]):
            raise UsageError(f"the shell command is too complex to rewrite without {edit.key} {edit.new}")
        return (*words[:line], typed(_without(tuple(shlex.split(words[line])), edit)), *words[line + 1 :])
    if not edit.new:
        return (*words, edit.key)
    if edit.old:
        return with_values(words, [replace(edit, old=edit.new, new=edit.old)])
    at = max(at for at, word in enumerate(words) if f"{word}=".lstrip("+").startswith(f"{edit.key}="))
    return (*words[:at], *words[at + (1 if "=" in words[at] else 2) :])
