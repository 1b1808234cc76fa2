"""What a patch wrote goes back, and what a person wrote beside it stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.patch.three_way_undo import undo_hunks

BEFORE = b"import torch\n\nlr = 0.1\nworkers = 0\nloader = Loader(workers)\nfor x in loader:\n    step(x)\n"
AFTER = BEFORE.replace(b"workers = 0", b"workers = 4")
ADDED = BEFORE.replace(b"lr = 0.1\n", b"torch.set_num_threads(2)\nlr = 0.1\n")


@pytest.mark.parametrize(
    ("after", "now", "expected"),
    [
        pytest.param(AFTER, AFTER, BEFORE, id="untouched"),
        pytest.param(AFTER, AFTER.replace(b"0.1", b"0.5"), BEFORE.replace(b"0.1", b"0.5"), id="the line above"),
        pytest.param(AFTER, b"# mine\r\n" + AFTER + b"end", b"# mine\r\n" + BEFORE + b"end", id="around"),
        pytest.param(AFTER, BEFORE + b"more\n", BEFORE + b"more\n", id="taken back, and more"),
        pytest.param(ADDED, ADDED.replace(b"0.1", b"0.5"), BEFORE.replace(b"0.1", b"0.5"), id="an added line"),
        pytest.param(ADDED, BEFORE.replace(b"step", b"go"), BEFORE.replace(b"step", b"go"), id="taken away by hand"),
        pytest.param(
            AFTER,
            b"import torch\n\nlr = 0.1\nloader = Loader(workers)\nfor x in loader:\n    step(x)\nworkers = 4\n",
            b"import torch\n\nlr = 0.1\nloader = Loader(workers)\nfor x in loader:\n    step(x)\nworkers = 0\n",
            id="moved",
        ),
        pytest.param(BEFORE.replace(b"lr = 0.1\n", b""), BEFORE.replace(b"lr = 0.1\n", b"") + b"x\n", BEFORE + b"x\n",
                     id="a line that was taken away"),
    ],
)  # fmt: skip
def test_only_what_the_patch_wrote_goes_back(after: bytes, now: bytes, expected: bytes) -> None:
    assert undo_hunks(BEFORE, after, now) == expected


def test_a_line_of_the_patch_that_was_edited_is_refused_with_what_it_was() -> None:
    with pytest.raises(UsageError) as error:
        undo_hunks(BEFORE, AFTER, AFTER.replace(b"workers = 4", b"workers = 8"))
    assert error.value.what == "the patch wrote 'workers = 4' here, but it was edited since and is 'workers = 8' now"
    assert error.value.where == "4"
    assert error.value.to_do == "Before the patch it was 'workers = 0'."


@pytest.mark.parametrize(
    ("before", "after", "now", "what", "to_do"),
    [
        pytest.param(
            b"a = 1\nc = 3\n", b"a = 1\nb = 20\nc = 3\n", b"a = 1\nb = 21\nc = 3\n",
            "the patch wrote 'b = 20' here, but it was edited since and is 'b = 21' now",
            "Before the patch there was no such line.", id="a line that it added",
        ),
        pytest.param(
            b"a = 1\nb = 2\nc = 3\n", b"a = 1\nb = 20\nc = 3\n", b"a = 1\nc = 3\n",
            "the patch wrote 'b = 20' here, but it is gone", "Before the patch it was 'b = 2'.", id="gone",
        ),
        pytest.param(
            b"a = 1\nb = 2\nc = 3\n", b"a = 1\nc = 3\n", b"x = 7\ny = 8\n",
            "the patch removed 'b = 2' here, and the lines around it were edited since",
            "Before the patch it was 'b = 2'.", id="a line that it took away",
        ),
    ],
)  # fmt: skip
def test_what_became_of_the_patchs_lines_is_said(
    before: bytes, after: bytes, now: bytes, what: str, to_do: str
) -> None:
    with pytest.raises(UsageError) as error:
        undo_hunks(before, after, now)
    assert (error.value.what, error.value.to_do) == (what, to_do)


def test_the_line_that_is_named_is_one_of_the_file_as_it_is() -> None:
    with pytest.raises(UsageError) as error:
        undo_hunks(BEFORE, AFTER, b"# mine\n# mine too\n" + AFTER.replace(b"workers = 4\n", b""))
    assert error.value.where == "6"
    assert error.value.what == "the patch wrote 'workers = 4' here, but it is gone"


def test_an_added_line_that_was_edited_is_refused() -> None:
    with pytest.raises(UsageError, match="set_num_threads"):
        undo_hunks(BEFORE, ADDED, ADDED.replace(b"threads(2)", b"threads(8)"))


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"d\r\n"]), max_size=8)


@given(LINES, LINES, LINES)
def test_edits_around_it_stay_byte_for_byte(above: list[bytes], middle: list[bytes], below: list[bytes]) -> None:
    before = [b"first\n", *middle, b"workers = 0\n", b"last\n"]
    after = [b"first\n", *middle, b"workers = 4\n", b"last\n"]
    now = b"".join([*above, *after, *below])
    assert undo_hunks(b"".join(before), b"".join(after), now) == b"".join([*above, *before, *below])


def test_another_line_like_the_patchs_is_not_taken_for_it() -> None:
    before = b"train(\n  num_workers=0,\n)\nval(\n  num_workers=2,\n)\n"
    after = before.replace(b"num_workers=0", b"num_workers=2")
    now = after.replace(b"num_workers=2", b"num_workers=3", 1)
    with pytest.raises(UsageError, match="'num_workers=2,' here, but it was edited since and is 'num_workers=3,' now"):
        undo_hunks(before, after, now)


@pytest.mark.parametrize("indent", [b"", b"    "])
def test_an_inserted_line_that_a_person_moved_is_not_said_to_be_gone(indent: bytes) -> None:
    before = b"import torch\nx = 1\ndef main():\n    pass\n"
    line = b"torch.set_num_threads(4)\n"
    after = before.replace(b"x = 1\n", line + b"x = 1\n")
    now = before.replace(b"    pass\n", indent + line + b"    pass\n")
    if indent:
        with pytest.raises(UsageError, match="here, but it is gone"):
            undo_hunks(before, after, now)
    else:
        assert undo_hunks(before, after, now) == before
