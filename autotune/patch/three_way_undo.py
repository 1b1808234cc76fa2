"""A file without what a patch wrote into it, where a person edited other lines of it since: a three-way merge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from autotune.errors import UsageError

Lines = list[bytes]


class PatchHunk(Struct, frozen=True):
    """Lines that the patch took away (`old`), and those of the file after it that it wrote: from `first` to `last`."""

    old: Lines
    first: int
    last: int


def undo_hunks(before: bytes, after: bytes, now: bytes) -> bytes:
    """`now` with the lines that led from `before` to `after` as they were; every other byte stays.

    A hunk that a person took back already is left alone. Raises UsageError, whose `where` is the line of `now`, where
    the lines that the patch wrote are not there any more: `to_do` says what they were before it.
    """
    current, found = _find_hunks(before, after, now)
    for span, hunk in sorted(found, key=lambda pair: pair[0], reverse=True):
        current[slice(*span)] = hunk.old
    return b"".join(current)


def is_whole(before: bytes, after: bytes, now: bytes) -> bool:
    """Whether `now` has all that led from `before` to `after`: nothing of it was taken back. Raises UsageError like
    `taken_back`."""
    current, found = _find_hunks(before, after, now)
    return all(current[slice(*span)] != hunk.old for span, hunk in found)


def _find_hunks(before: bytes, after: bytes, now: bytes) -> tuple[Lines, list[tuple[tuple[int, int], PatchHunk]]]:
    """The lines of `now`, and where each hunk stands in them: from, to."""
    old, new, current = (data.splitlines(keepends=True) for data in (before, after, now))
    places = _places(new, current)
    return current, [(_span(hunk, new, current, places), hunk) for hunk in _hunks(old, new)]


def _hunks(old: Lines, new: Lines) -> Iterator[PatchHunk]:
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield PatchHunk(old[i1:i2], j1, j2)


def _places(new: Lines, current: Lines) -> Sequence[int | None]:
    """For each line of the file after the patch where it stands now, None where it does not."""
    places: list[int | None] = [None] * len(new)
    for block in SequenceMatcher(None, new, current, autojunk=False).get_matching_blocks():
        places[block.a : block.a + block.size] = range(block.b, block.b + block.size)
    return places


def _span(hunk: PatchHunk, new: Lines, current: Lines, places: Sequence[int | None]) -> tuple[int, int]:
    """Where the hunk stands now; with its old lines in it where it was taken back."""
    found = [place for place in places[hunk.first : hunk.last] if place is not None]
    size = hunk.last - hunk.first
    if size and len(found) == size and found[-1] - found[0] == size - 1:
        return found[0], found[-1] + 1
    above = next((place for place in reversed(places[: hunk.first]) if place is not None), -1)
    below = next((place for place in places[hunk.last :] if place is not None), len(current))
    written = new[hunk.first : hunk.last]
    moved = _moved(written, current, places)
    if not hunk.old and above + 1 == below and not moved:
        return below, below
    starts = range(above + 1, below) if hunk.old else ()
    back = [at for at in starts if hunk.old == current[at : min(at + len(hunk.old), below)]]
    if len(back) == 1:
        return back[0], back[0] + len(hunk.old)
    if not size and (at := _beside(hunk, places)) is not None:
        return at, at
    if len(moved) == 1 and current[moved[0] : moved[0] + size] == written:
        return moved[0], moved[0] + size
    raise _edited_error(hunk, new, current, (above + 1, below))


def _moved(written: Lines, current: Lines, places: Sequence[int | None]) -> list[int]:
    """Where the lines of a hunk stand as well, whatever their indentation, and are no other lines of the file."""
    size, wanted = len(written), [line.strip() for line in written]
    if not b"".join(wanted):
        return []
    others = {place for place in places if place is not None}
    return [
        at
        for at in range(len(current) - size + 1)
        if [line.strip() for line in current[at : at + size]] == wanted and others.isdisjoint(range(at, at + size))
    ]


def _beside(hunk: PatchHunk, places: Sequence[int | None]) -> int | None:
    """Where lines go that the patch took away without writing others: beside a neighbour that still stands."""
    above = places[hunk.first - 1] if hunk.first else -1
    below = places[hunk.last] if hunk.last < len(places) else None
    return above + 1 if above is not None else below


def _edited_error(hunk: PatchHunk, new: Lines, current: Lines, at: tuple[int, int]) -> UsageError:
    """`at` is where the lines of the hunk would stand in the file as it is now: from, to."""
    first, last = at
    written, there = new[hunk.first : hunk.last], [line for line in current[first:last] if line.strip()]
    was = (
        f"Before the patch it was {_on_one_line(hunk.old)}." if hunk.old else "Before the patch there was no such line."
    )
    return UsageError(_what(hunk, written, there), where=str(min(first, max(0, len(current) - 1)) + 1), to_do=was)


def _what(hunk: PatchHunk, written: Lines, there: Lines) -> str:
    if not written:
        return f"the patch removed {_on_one_line(hunk.old)} here, and the lines around it were edited since"
    if not there:
        return f"the patch wrote {_on_one_line(written)} here, but it is gone"
    return f"the patch wrote {_on_one_line(written)} here, but it was edited since and is {_on_one_line(there)} now"


def _on_one_line(lines: Lines) -> str:
    text = " / ".join(line.decode("utf-8", "backslashreplace").strip() for line in lines)
    return repr(text if len(text) <= 120 else f"{text[:120]}...")
