"""Notebooks among the files of a project."""

from __future__ import annotations

from pathlib import Path

import pytest
from notebook_builders import SHAPES, Cell

from autotune.model.scanned import Bundle, Scanned
from autotune.scan import files, scan
from autotune.syntax import notebook

CELLS: list[Cell] = [
    ("markdown", "# Training"),
    ("code", "!pip install torch\nimport torch\nfrom torch.utils.data import DataLoader\nfrom own import LOADERS\n"),
    ("code", "loader = DataLoader(data, batch_size=8, num_workers=LOADERS)"),
    ("code", "%%time\nfor x in loader:\n    model(x.cuda()).backward()\n    optimizer.step()\n"),
]
TRAIN = "from transformers import *\n(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
TRAIN += "Trainer(model, args).train()\n"


def scanned(root: Path, cells: list[Cell], shape: str = "jupyter", name: str = "a.ipynb") -> Scanned:
    (root / name).write_bytes(SHAPES[shape](cells))
    return scan([root], root=root)


def named(found: Scanned, name: str) -> Bundle:
    (bundle,) = [one for one in found.bundles if one.name == name]
    return bundle


@pytest.mark.parametrize("shape", SHAPES)
def test_the_cells_of_a_notebook_are_one_script(tmp_path: Path, shape: str) -> None:
    (tmp_path / "own.py").write_text("import torch\nLOADERS = 3\n")
    bundle = named(scanned(tmp_path, CELLS, shape), "a.ipynb")
    settings = {one.name: one for one in bundle.settings}
    assert settings["loader.num_workers"].value == 3
    assert settings["loader.batch_size"].value == 8


def test_a_cell_that_does_not_parse_is_left_out_with_a_word(tmp_path: Path) -> None:
    found = scanned(tmp_path, [*CELLS, ("code", "x = ]")])
    assert named(found, "a.ipynb").settings
    (note,) = found.notes
    assert note.where.startswith("a.ipynb:")
    assert note.why.startswith("cell 5 is not read: invalid Python")
    assert not note.is_error


def test_shell_lines_are_launch_commands(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "train.py").write_text(TRAIN)
    cells: list[Cell] = [
        ("code", "%cd repo\nout = 'x'"),
        ("code", "for seed in range(3):\n    !torchrun --nproc_per_node 2 train.py --bf16 --seed {seed} \\\n"
         "        --dataloader_num_workers 4"),
    ]  # fmt: skip
    bundle = named(scanned(tmp_path, cells), "repo/train.py")
    assert bundle.files == ("repo/train.py", "a.ipynb")
    workers = next(one for one in bundle.settings if one.name == "loader.num_workers")
    assert workers.value == 4
    assert workers.location is not None
    lines = (tmp_path / "a.ipynb").read_text().splitlines()
    assert "--dataloader_num_workers 4" in lines[workers.location.line - 1]
    assert {one.name: one.value for one in bundle.facts}["config.num_processes"] == 2
    assert "train.seed" not in {one.name for one in bundle.settings}


def test_a_notebook_that_trains_and_starts_a_script_is_two_bundles(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    cells: list[Cell] = [*CELLS, ("code", "%%bash\naccelerate launch train.py --fp16\n")]
    assert [one.name for one in scanned(tmp_path, cells).bundles] == ["train.py", "a.ipynb"]


def test_shell_lines_that_cannot_be_read_leave_the_python(tmp_path: Path) -> None:
    found = scanned(tmp_path, [*CELLS, ("code", "!python train.py --name 'a\n")])
    assert named(found, "a.ipynb").settings
    assert ["its shell lines are not read" in note.why for note in found.notes] == [True]


def test_what_says_nothing_about_training_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.syntax.notebook.read", None)
    (tmp_path / "a.ipynb").write_bytes(SHAPES["jupyter"]([("code", "import numpy")]))
    assert files.find([tmp_path], root=tmp_path).files == ()


def test_code_is_limited_and_outputs_are_not(tmp_path: Path) -> None:
    cells: list[Cell] = [*CELLS, ("markdown", "x" * 3_000_000)]
    assert scanned(tmp_path, cells).bundles
    (note,) = scanned(tmp_path, [*CELLS, ("code", "x = 1\n" * 100_000)]).notes
    assert note.why == "its code is larger than 500 kB"


@pytest.mark.parametrize("shape", SHAPES)
def test_code_that_is_too_long_is_not_read(tmp_path: Path, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "read", lambda *_: pytest.fail("it is read"))
    found = scanned(tmp_path, [*CELLS, ("code", "x = 'é'\n" * 60_000)], shape)
    assert [note.why for note in found.notes] == ["its code is larger than 500 kB"]


@pytest.mark.parametrize("shape", SHAPES)
def test_long_texts_beside_the_code_are_no_code(tmp_path: Path, shape: str) -> None:
    found = scanned(tmp_path, [*CELLS, ("markdown", "x = 1\n" * 100_000)], shape)
    assert named(found, "a.ipynb").settings
