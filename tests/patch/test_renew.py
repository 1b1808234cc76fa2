"""A change follows its files: as it is while they are, found again or refused when they changed."""

from __future__ import annotations

from collections.abc import Callable

from autotune.model.evidence import Span
from autotune.model.patch import Edit, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.patch.journal import sha256
from autotune.patch.renew import renewed

DATA = b"workers = 0\n"
EDIT = Edit("a.py", sha256(DATA), "workers", Span(10, 11), "0", "4")
SAID = Edit(TYPED, "", "--lr", Span(0, 0), "1", "2")
CHANGE = PatchChange("loader.num_workers", "loader#train", 0, 4, ("DL001",), Effect.EXACT, edits=(EDIT, SAID))


def reading(data: bytes) -> Callable[[str], bytes]:
    return {"a.py": data}.__getitem__


def test_a_file_that_is_the_same_and_a_typed_value() -> None:
    one = renewed(CHANGE, reading(DATA))
    assert (one.change, one.moved, one.stale) == (CHANGE, (), None)


def test_a_value_that_moved() -> None:
    one = renewed(CHANGE, reading(b"# new\n" + DATA))
    assert [edit.span for edit in one.change.edits] == [Span(16, 17), Span(0, 0)]
    assert one.moved == ("a.py changed since the diagnosis: workers was found again at line 2",)


def test_a_value_that_is_there_already() -> None:
    one = renewed(CHANGE, reading(b"workers = 4\n"))
    assert (one.change.edits, one.moved, one.stale) == ((SAID,), (), None)


def test_a_value_that_is_another_one() -> None:
    one = renewed(CHANGE, reading(b"workers = 1\n"))
    assert one.change == CHANGE
    assert one.stale is not None
    assert one.stale.where == "a.py"
    assert "it is 1 now, not 0; nothing was changed" in one.stale.what
