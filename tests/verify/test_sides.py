from __future__ import annotations

import pytest

from autotune import patch
from autotune.errors import UsageError
from autotune.model.patch import Edit, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.model.verified import AFTER, BEFORE
from autotune.patch.journal import PatchStore
from autotune.patch.present import present_files
from autotune.verify import sides

WORDS = ("train.py", "--workers", "0")


def change(*edits: Edit, effect: Effect = Effect.EXACT) -> PatchChange:
    return PatchChange("loader.num_workers", "loader#train", 0, 4, ("DL001",), effect, edits=edits)


def typed(key: str, new: str, old: str = "") -> Edit:
    return Edit(TYPED, key, old, new)


@pytest.mark.parametrize(
    ("words", "after"),
    [
        (("train.py", "--workers", "0", "--x"), ("train.py", "--workers", "4", "--x")),
        (("train.py", "--workers=0"), ("train.py", "--workers=4")),
        (("train.py",), ("train.py", "--workers", "4")),
    ],
)
def test_what_is_typed_changes_the_words_of_the_second_side(words, after) -> None:
    found = sides.patched(words, [change(typed("--workers", "4"))], [], "x")
    assert (found.words[BEFORE], found.words[AFTER]) == (words, after)
    assert found.edited == frozenset()


@pytest.mark.parametrize(
    ("words", "old", "before"),
    [
        (("train.py", "--workers", "4", "--x"), "0", ("train.py", "--workers", "0", "--x")),
        (("train.py", "--workers=4"), "0", ("train.py", "--workers=0")),
        (("train.py", "--workers", "4", "--x"), "", ("train.py", "--x")),
        (("train.py", "--workers=4", "--x"), "", ("train.py", "--x")),
        (("train.py", "--workers", "2"), "0", ("train.py", "--workers", "2")),
    ],
)
def test_what_is_typed_already_is_taken_back_on_the_first_side(tmp_path, words, old, before) -> None:
    made = change(typed("--workers", "4", old))
    unwritten = sides.patched(words, [made], [], "x").words
    assert (unwritten[BEFORE], "4" in " ".join(unwritten[AFTER])) == (before, True)
    path = tmp_path / "a.yaml"
    path.write_bytes(b"old")
    journal = patch.write(
        PatchStore(tmp_path, tmp_path / "patches"), "1 of 2 changes of run r", [(path, b"old", b"new")]
    )
    written = sides.written(words, journal.number, present_files(journal), [made]).words
    assert (written[BEFORE], written[AFTER]) == (before, words)
    assert sides.is_typed(words, made) == ("2" not in words)


def test_files_that_differ_have_the_contents_of_both_sides(tmp_path) -> None:
    (tmp_path / "link.yaml").symlink_to(tmp_path / "a.yaml")
    (tmp_path / "a.yaml").write_bytes(b"old")
    found = sides.patched(WORDS, [change()], [(tmp_path / "link.yaml", b"old", b"new")], "x")
    assert found.edited == {tmp_path / "a.yaml"}
    assert (found.files[BEFORE], found.files[AFTER]) == ({tmp_path / "a.yaml": b"old"}, {tmp_path / "a.yaml": b"new"})
    assert found.words[BEFORE] == found.words[AFTER] == WORDS


def test_a_patch_that_writes_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to verify"):
        sides.patched(WORDS, [], [], "x")


def test_the_gravest_effect_counts() -> None:
    found = sides.patched(WORDS, [change(typed("--a", "1")), change(effect=Effect.ALTERING)], [], "x")
    assert found.effect is Effect.ALTERING
    assert sides.other(WORDS, "new.py").effect is None


def test_another_script_takes_the_place_of_the_first() -> None:
    found = sides.other(("torchrun", "--nproc-per-node", "2", "train.py", "eval.py"), "new.py")
    assert found.words[AFTER] == ("torchrun", "--nproc-per-node", "2", "new.py", "eval.py")
    with pytest.raises(UsageError, match="names no"):
        sides.other(("trl", "sft"), "new.py")


def test_a_written_patch_is_compared_with_what_was_before(tmp_path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"old\n")
    store = PatchStore(tmp_path, tmp_path / "patches")
    journal = patch.write(store, "1 of 2 changes of run r", [(path, b"old\n", b"new\n")])
    found = sides.written(WORDS, 1, present_files(journal), [change()])
    assert (found.files[BEFORE], found.files[AFTER]) == ({path: b"old\n"}, {path: b"new\n"})
    assert found.against == "patch 1 (applied)"


def test_what_was_edited_elsewhere_since_is_on_both_sides(tmp_path) -> None:
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for path in paths:
        path.write_bytes(b"old\n")
    store = PatchStore(tmp_path, tmp_path / "patches")
    journal = patch.write(store, "1 of 2 changes of run r", [(path, b"old\n", b"new\n") for path in paths])
    paths[0].write_bytes(b"mine\nnew\n")
    found = sides.written(WORDS, 1, present_files(journal), [change()])
    assert found.files[BEFORE] == {paths[0]: b"mine\nold\n", paths[1]: b"old\n"}
    assert found.files[AFTER] == {paths[0]: b"mine\nnew\n", paths[1]: b"new\n"}
    assert found.against == (
        "patch 1 (applied); a.yaml was edited since: as it is now, against the same without the patch's lines"
    )
