"""`apply` and `undo` on notebooks as the programs write them that people use: sources change, and no other byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from notebook_builders import SHAPES, Cell

from autotune.apply import apply, undo
from autotune.apply.apply import ApplyOptions
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.patch.file import NAME, dumps
from autotune.patch.journal import sha256
from autotune.patch.notebook_text import text

IMPORTS = "%matplotlib inline\nimport torch\nfrom torch.utils.data import DataLoader"
LOADERS = 'WORKERS = 0\nname = "é\\t\\"x\\""\nloader = DataLoader(\n    data,  # ü\n    batch_size=8,\n)\n'
LOOP = "other = DataLoader(data, batch_size=8, num_workers=WORKERS)\nfor x in loader:\n    step(x)"
CELLS: list[Cell] = [("markdown", "# ü"), ("code", IMPORTS), ("code", LOADERS), ("code", "x = ]"), ("code", LOOP)]

EDITS = [
    (("DataLoader.batch_size", "8", "16", 1), LOADERS, LOADERS.replace("=8", "=16")),
    (("DataLoader.batch_size", "8", "16", 2), LOOP, LOOP.replace("=8", "=16")),
    (("DataLoader.num_workers", "", "2", 1), LOADERS, LOADERS.replace("=8,\n", "=8,\n    num_workers=2,\n")),
    (("WORKERS", "0", "4", 1), LOADERS, LOADERS.replace("S = 0", "S = 4")),
    (("name", '"é\\t\\"x\\""', '"ä\\"y"', 1), LOADERS, LOADERS.replace('"é\\t\\"x\\""', '"ä\\"y"')),
    (("torch.set_num_threads()", "", "4", 1), IMPORTS, f"{IMPORTS}\n\ntorch.set_num_threads(4)"),
]


def keep(project: Path, data: bytes, *wanted: tuple[str, str, str, int]) -> None:
    """A run whose patch has these edits of a.ipynb."""
    digest = sha256(text("a.ipynb", data))
    edits = [Edit("a.ipynb", key.replace("torch.", ""), old, new, at, digest) for key, old, new, at in wanted]
    changes = [
        PatchChange(f"loader.setting_{number}", "run", 1, 2, ("DL001",), Effect.EXACT, edits=(edit,))
        for number, edit in enumerate(edits)
    ]
    run = artefacts.new_run(project)
    (run / "recording-1.json").write_text("{}")
    artefacts.write_patch(run / NAME, dumps(Patch(str(project), run.name, ("a.ipynb",), tuple(changes))))
    artefacts.mark_last(run)


def applied(project: Path) -> bytes:
    apply.write(apply.plan(ApplyOptions(), cwd=project))
    return (project / "a.ipynb").read_bytes()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("wanted", "old", "new"), EDITS, ids=[one[0][0] for one in EDITS])
def test_an_edit_gives_what_the_program_would_write(
    tmp_path: Path, shape: str, wanted: tuple[str, str, str, int], old: str, new: str
) -> None:
    data = SHAPES[shape](CELLS)
    (tmp_path / "a.ipynb").write_bytes(data)
    keep(tmp_path, data, wanted)
    after = applied(tmp_path)
    assert after != data
    assert json.loads(after) == json.loads(SHAPES[shape]([(kind, new if one == old else one) for kind, one in CELLS]))
    if "ä" not in new or b"\\u" not in data:
        assert after == SHAPES[shape]([(kind, new if one == old else one) for kind, one in CELLS])
    undo.undo(None, cwd=tmp_path)
    assert (tmp_path / "a.ipynb").read_bytes() == data


@pytest.mark.parametrize("shape", SHAPES)
def test_several_edits_of_one_notebook(tmp_path: Path, shape: str) -> None:
    data = SHAPES[shape](CELLS)
    (tmp_path / "a.ipynb").write_bytes(data)
    keep(tmp_path, data, *(EDITS[at][0] for at in (0, 2, 3, 5)))
    loaders = LOADERS.replace("=8,\n", "=16,\n    num_workers=2,\n").replace("S = 0", "S = 4")
    changed = {IMPORTS: EDITS[5][2], LOADERS: loaders}
    assert applied(tmp_path) == SHAPES[shape]([(kind, changed.get(one, one)) for kind, one in CELLS])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_notebook_that_ran_again_since_is_still_edited(tmp_path: Path, shape: str) -> None:
    data = SHAPES[shape](CELLS)
    keep(tmp_path, data, EDITS[3][0])
    again = data.replace(b"Epoch 1", b"Epoch 2")
    assert again != data
    (tmp_path / "a.ipynb").write_bytes(again)
    assert applied(tmp_path) == SHAPES[shape]([(kind, one.replace("S = 0", "S = 4")) for kind, one in CELLS]).replace(
        b"Epoch 1", b"Epoch 2"
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_undo_keeps_what_was_edited_since(tmp_path: Path, shape: str) -> None:
    if shape == "kaggle":
        pytest.skip("a file of one line: undo says that the line was edited")
    data = SHAPES[shape](CELLS)
    (tmp_path / "a.ipynb").write_bytes(data)
    keep(tmp_path, data, EDITS[0][0])
    more = applied(tmp_path).replace(b"step(x)", b"step(x, 2)")
    (tmp_path / "a.ipynb").write_bytes(more)
    undo.undo(None, cwd=tmp_path)
    assert (tmp_path / "a.ipynb").read_bytes() == data.replace(b"step(x)", b"step(x, 2)")


def test_another_value_there_is_not_overwritten(tmp_path: Path) -> None:
    data = SHAPES["jupyter"](CELLS)
    (tmp_path / "a.ipynb").write_bytes(data.replace(b"WORKERS = 0", b"WORKERS = 3"))
    keep(tmp_path, data, EDITS[3][0])
    with pytest.raises(UsageError, match="it is 3 now, not 0"):
        applied(tmp_path)


def test_what_is_no_notebook_any_more_is_said(tmp_path: Path) -> None:
    data = SHAPES["jupyter"](CELLS)
    (tmp_path / "a.ipynb").write_bytes(b"{}")
    keep(tmp_path, data, EDITS[3][0])
    with pytest.raises(UsageError, match="no cells"):
        applied(tmp_path)
