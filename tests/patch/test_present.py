"""A written patch is in the files as long as its own lines are, whatever is edited beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune import patch
from autotune.errors import UsageError
from autotune.patch.journal import Journal, PatchStore
from autotune.patch.present import PresentFile, is_present, present_files

BEFORE, AFTER = b"lr = 0.1\nworkers = 0\nseed = 1\npin = 0\n", b"lr = 0.1\nworkers = 4\nseed = 1\npin = 1\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_bytes(BEFORE)
    return tmp_path / "a.yaml"


@pytest.fixture
def journal(file: Path) -> Journal:
    return patch.write(PatchStore(file.parent, file.parent / "patches"), "t", [(file, BEFORE, AFTER)])


def test_untouched_files_are_as_the_patch_left_them(file: Path, journal: Journal) -> None:
    assert present_files(journal) == (PresentFile(file, BEFORE, AFTER, is_edited=False),)


def test_an_edit_of_another_line_stays_on_both(file: Path, journal: Journal) -> None:
    file.write_bytes(b"# mine\n" + AFTER.replace(b"0.1", b"0.5"))
    (found,) = present_files(journal)
    assert found == PresentFile(file, b"# mine\n" + BEFORE.replace(b"0.1", b"0.5"), file.read_bytes(), is_edited=True)


def test_a_later_patch_of_the_same_file_is_such_an_edit(file: Path, journal: Journal) -> None:
    now = AFTER.replace(b"seed = 1", b"seed = 2")
    later = patch.write(PatchStore(file.parent, file.parent / "patches"), "t", [(file, AFTER, now)])
    assert [one.without for one in present_files(journal)] == [BEFORE.replace(b"seed = 1", b"seed = 2")]
    assert [one.without for one in present_files(later)] == [AFTER]


def test_a_line_of_the_patch_that_was_edited_is_named(file: Path, journal: Journal) -> None:
    file.write_bytes(AFTER.replace(b"workers = 4", b"workers = 8"))
    with pytest.raises(UsageError) as error:
        present_files(journal)
    assert error.value.where == f"{file}:2"
    assert not is_present(journal)


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(BEFORE, id="all"),
        pytest.param(b"# mine\n" + BEFORE, id="all, and an edit"),
        pytest.param(AFTER.replace(b"pin = 1", b"pin = 0"), id="a part"),
    ],
)
def test_what_was_taken_back_by_hand_is_not_in_the_files(file: Path, journal: Journal, now: bytes) -> None:
    file.write_bytes(now)
    assert present_files(journal) == ()
    assert not is_present(journal)


def test_a_file_that_is_gone_has_nothing(file: Path, journal: Journal) -> None:
    file.unlink()
    assert present_files(journal) == ()


def test_a_patch_that_was_undone_is_not_in_the_files(file: Path, journal: Journal) -> None:
    assert is_present(journal)
    assert not is_present(patch.undo(PatchStore(file.parent, file.parent / "patches")))


def test_bytes_that_were_kept_and_are_others_now_tell_nothing(file: Path, journal: Journal) -> None:
    journal.before(0).write_bytes(b"another\n")
    assert present_files(journal) == ()
