"""patch.yaml says all that a Patch holds, and what is wrong in it is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.patch.file import MOST_BYTES, dumps, loads

EDIT = Edit("train.py", "DataLoader.num_workers", "0", "4", sha256="ab" * 32)
CHANGE = PatchChange(
    "loader.num_workers", "loader#train", 0, 4, ("DL001",), Effect.EQUIVALENT, gain="3.6x (3.1 to 4.0)", edits=(EDIT,)
)
PATCH = Patch("/p", "20261121-1", ("train.py", "--lr", "1e-4"), (CHANGE,))


def text(patch: Patch = PATCH) -> str:
    return dumps(patch)


def test_what_is_written_is_read() -> None:
    assert loads(text().encode(), "patch.yaml") == PATCH


def test_a_patch_without_changes() -> None:
    empty = Patch("/p", "r", (), ())
    assert loads(dumps(empty).encode(), "patch.yaml") == empty


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
values = st.one_of(st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), words)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
edits = st.builds(Edit, names, words, words, words, st.integers(1, 9), st.just("0" * 64))
changes = st.builds(
    PatchChange,
    st.sampled_from(["loader.num_workers", "train.precision"]),
    words,
    st.none() | values,
    values,
    st.lists(words, max_size=3).map(tuple),
    st.sampled_from(list(Effect)),
    words,
    st.lists(edits, max_size=2).map(tuple),
    words,
    st.lists(words, max_size=2).map(tuple),
)
patches = st.builds(
    Patch, names, words, st.lists(words, max_size=3).map(tuple), st.lists(changes, max_size=3).map(tuple)
)


@given(patches)
def test_any_patch_comes_back(patch: Patch) -> None:
    assert loads(dumps(patch).encode(), "patch.yaml") == patch


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema: 2", "schema: 1", "schema 1 is not 2"),
        ("  new: 4\n", "", "changes.0.new is missing"),
        ('effect: "equivalent"', 'effect: "harmless"', "changes.0.effect must be one of"),
        ('old: "0"', "occurrence: 0", "changes.0.edits.0.occurrence must be 1 or more"),
        ('old: "0"', "old: {a: 0}", "changes.0.edits.0.old must be one value"),
        ("files:\n", "files: 7\nfolders:\n", "files must be names with texts"),
        ('file: "train.py"', 'file: "a\\0b"', "changes.0.edits.0.file is not a file name"),
        ('file: "train.py"', f'file: "{"a" * 5_000}"', "changes.0.edits.0.file is not a file name"),
        ('root: "/p"', 'root: "/\\0"', "root is not a file name"),
        ("  new: 4\n", "  new: {a: 4}\n", "changes.0.new must be one value"),
        ("schema: 2", "schema: 2\nschema: {a: 1}", "schema must be a whole number"),
        ('root: "/p"', "root: 7", "root must be a string"),
        ("changes:\n", "rules:\n", "changes must be a list"),
    ],
)
def test_a_mistake_is_named(old: str, new: str, message: str) -> None:
    assert old in text()
    with pytest.raises(UsageError) as error:
        loads(text().replace(old, new).encode(), "patch.yaml")
    assert message in error.value.what
    assert error.value.where.startswith("patch.yaml")


@pytest.mark.parametrize("data", [b"schema: [1", b"", b"x", b"- 1", b"# " + b"x" * MOST_BYTES])
def test_what_is_no_patch_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(UsageError):
        loads(data, "patch.yaml")


def test_an_edit_that_a_person_wrote() -> None:
    head = "schema: 2\nroot: /p\nrun: r\ncommand: [train.py]\nchanges:\n"
    edits = "edits: [{file: train.py, key: lr, old: 0, new: 4}]"
    row = f"  - {{setting: s, subject: run, new: 4, effect: exact, rules: [], {edits}}}\n"
    (change,) = loads((head + row).encode(), "patch.yaml").changes
    assert change.edits == (Edit("train.py", "lr", "0", "4"),)
    (change,) = loads((head + row.replace("new: 4}]", "new: true}]")).encode(), "patch.yaml").changes
    assert change.edits == (Edit("train.py", "lr", "0", "True"),)


def test_a_change_that_a_person_deleted_is_left_out() -> None:
    two = Patch("/p", "r", (), (CHANGE, PatchChange("train.compile", "run", None, True, ("CO001",), Effect.EQUIVALENT)))
    lines = dumps(two).splitlines(keepends=True)
    second = lines.index("- setting: train.compile\n")
    assert loads("".join(lines[:second]).encode(), "patch.yaml").changes == (CHANGE,)


def test_an_edit_of_an_empty_command_is_refused() -> None:
    typed = replace(CHANGE, edits=(replace(EDIT, file=TYPED),))
    with pytest.raises(UsageError, match="command is empty, but an edit changes the command line"):
        loads(dumps(Patch("/p", "r", (), (typed,))).encode(), "patch.yaml")
