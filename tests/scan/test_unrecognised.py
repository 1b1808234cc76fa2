from __future__ import annotations

from pathlib import Path

import pytest

from autotune.scan import scan

TRIES = "import torch\nloss.backward()\n"

TRAINS = """
import torch
optimizer = torch.optim.AdamW(model.parameters())
for x in torch.utils.data.DataLoader(rows):
    model(x).backward()
    optimizer.step()
"""


def notes(root: Path, *names: str) -> dict[str, str]:
    scanned = scan([root / name for name in names], root=root)
    return {note.where: note.why for note in scanned.notes}


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.yaml", b"foo: [1, 2\n", "expected"),
        ("a.yaml", b"foo:\n\t- 1\n", "cannot start any token"),
        ("a.yaml", b"[" * 2000, "deep"),
        ("a.json", b"[" * 20000, "deep"),
        ("a.toml", b"x = = 1", "expected a value"),
        ("a.yaml", "batch_size: 1".encode("utf-16"), "null byte"),
        ("a.py", "import torch".encode("utf-16"), "null byte"),
        ("a.py", b"x = (", "never closed"),
        ("a.py", b"x = 1", "says nothing about training"),
        ("a.yaml", b"x: 1", "says nothing about training"),
        ("a.sh", b"ls", "says nothing about training"),
        ("a.py", TRIES.encode(), "uses torch, but no training loop was recognised"),
        ("a.ipynb", b"{}", "says nothing about training"),
        ("a.ipynb", b'{"cells": ["import torch"', "not a notebook"),
        ("a.ipynb", b'{"worksheet": "import torch"}', "it has no cells"),
    ],
)
def test_a_named_file_without_a_finding_is_explained(tmp_path: Path, name: str, data: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(data)
    found = notes(tmp_path, name)
    assert len(found) == 1
    ((where, text),) = found.items()
    assert where.split(":")[0] == name
    assert why.lower() in text.lower()


def test_a_named_file_that_trains_or_belongs_to_one_that_does_is_not(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINS)
    (tmp_path / "run.sh").write_text("python train.py")
    assert notes(tmp_path, "train.py", "run.sh") == {}


def test_many_named_files_are_one_note(tmp_path: Path) -> None:
    names = [f"{letter}.py" for letter in "abcd"]
    for name in names:
        (tmp_path / name).write_text("x = 1")
    assert notes(tmp_path, *names) == {".": "4 files: says nothing about training"}


def test_a_folder_without_a_file_that_is_read_is_explained(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").mkdir()
    assert notes(tmp_path, "a")["a"].startswith("no supported file (.py")
    (tmp_path / "a" / "b" / "c.ipynb").write_text("{}")
    assert notes(tmp_path, "a") == {}


def test_a_named_file_that_is_excluded_is_explained(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TRAINS)
    scanned = scan([tmp_path / "a.py"], root=tmp_path, exclude=["a.py"])
    assert [(note.where, note.why) for note in scanned.notes] == [
        ("a.py", "excluded: it matches `exclude` in the configuration")
    ]


def test_code_that_uses_torch_and_trains_in_no_known_way_is_counted(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(TRIES)
    (tmp_path / "c.py").write_text("import torch\n")
    assert notes(tmp_path, ".") == {"a.py": "2 files use torch, but no training loop was recognised"}
    (tmp_path / "c.py").write_text(TRAINS)
    assert notes(tmp_path, ".") == {}
