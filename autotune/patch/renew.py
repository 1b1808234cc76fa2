"""A change for the files as they are now: what moved is found again, and what is made already is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from autotune.errors import UsageError
from autotune.model.patch import Edit, PatchChange
from autotune.model.scanned import TYPED
from autotune.patch import help_text
from autotune.patch.again import again, is_added, line_of
from autotune.patch.couple import is_pair
from autotune.patch.journal import sha256
from autotune.patch.readers import check_again

_TO_DO = "Diagnose again, or write the other changes with --select."


@dataclass(frozen=True, slots=True)
class Renewed:
    """`moved` says where edits of the change were found again, `stale` why one of them cannot be made any more.

    `is_made` says that its files have a value of it already; a help text is none.
    """

    change: PatchChange
    moved: tuple[str, ...] = ()
    stale: UsageError | None = None
    is_made: bool = False


def renewed(change: PatchChange, read: Callable[[str], bytes]) -> Renewed:
    """The change with the edits that its files need now; `read` gives the bytes of a file that an edit names."""
    try:
        pairs = [(edit, _now(edit, change.setting, read)) for edit in change.edits]
    except UsageError as error:
        return Renewed(change, stale=error)
    edits = tuple(now for _, now in pairs if now is not None)
    is_made = any(now is None and not help_text.is_of_help(edit) for edit, now in pairs)
    return Renewed(replace(change, edits=edits), tuple(_moved(pairs, read)), is_made=is_made)


def paired(changes: Sequence[Renewed]) -> Iterator[Renewed]:
    """The same changes; one that is to be made is stale when its files have the other one of a pair already.

    Somebody made that since the diagnosis, and what holds only with both (the global batch) is another one now.
    """
    for each in changes:
        others = [one for one in changes if one.is_made and is_pair(each.change, one.change)]
        is_left = any(edit.file != TYPED and not help_text.is_of_help(edit) for edit in each.change.edits)
        yield replace(each, stale=each.stale or _half(each, others[0])) if others and is_left else each


def _half(half: Renewed, made: Renewed) -> UsageError:
    change, other = half.change, made.change
    at = next(edit.file for edit in change.edits if edit.file != TYPED)
    why = f"{change.setting} = {change.new} only holds together with that; nothing was changed"
    what = f"since the diagnosis somebody wrote {other.setting} = {other.new}, and {why}"
    return UsageError(what, where=at, to_do=_TO_DO)


def _now(edit: Edit, setting: str, read: Callable[[str], bytes]) -> Edit | None:
    """The edit; one of a file that changed since is made again, and None where the file has it already."""
    if edit.file == TYPED:
        return edit
    data = read(edit.file)
    if edit.sha256 == sha256(data):
        return edit
    try:
        found = again(data, edit)
        if found is not None and not is_added(edit) and not help_text.is_of_help(edit):
            check_again(data, found, setting)
        return found
    except UsageError as error:
        what = f"{edit.key}: the file changed since the diagnosis, and {error.what}; nothing was changed"
        raise UsageError(what, where=edit.file, to_do=_TO_DO) from error


def _moved(pairs: Iterable[tuple[Edit, Edit | None]], read: Callable[[str], bytes]) -> Iterable[str]:
    for edit, now in pairs:
        if now is not None and now.sha256 != edit.sha256:
            line = line_of(read(edit.file), now.span)
            yield f"{edit.file} changed since the diagnosis: {edit.key} was found again at line {line}"
