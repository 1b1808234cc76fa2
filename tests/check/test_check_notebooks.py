"""Findings in notebooks: where every format says that they are, and what silences them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from notebook_builders import SHAPES, Cell

from autotune.check.check import CheckOptions, check
from autotune.model.checked import Checked
from autotune.report import render

HEAD = "import torch\n%matplotlib inline\nmodel = torch.nn.Linear(4, 4)\n"
HEAD += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
HEAD += "loader = torch.utils.data.DataLoader(list(torch.randn(64, 4)), batch_size=8)"
LOOP = "import gc\nfor batch in loader:\n    model(batch).square().mean().backward()\n    optimizer.step()\n"
LOOP += "    optimizer.zero_grad()\n    gc.collect()\n"
CELLS: list[Cell] = [("markdown", "# T"), ("code", HEAD), ("code", LOOP)]


def checked(root: Path, **options: object) -> Checked:
    asked = CheckOptions(paths=(Path("a.ipynb"),), select=("SY006",), **options)  # type: ignore[arg-type]
    return check(asked, cwd=root)


def places(found: Checked) -> list[tuple[int, int]]:
    return [(one.location.cell, one.location.cell_line) for one in found.findings if one.location is not None]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_finding_is_at_its_line_of_the_file_and_its_cell(tmp_path: Path, shape: str) -> None:
    data = SHAPES[shape](CELLS)
    (tmp_path / "a.ipynb").write_bytes(data)
    found = checked(tmp_path)
    assert places(found) == [(3, 6)]
    (at,) = [one.location for one in found.findings]
    assert at is not None
    line = data.decode().splitlines()[at.line - 1]
    assert line[at.column - 1 :].startswith("gc.collect()")


@pytest.mark.parametrize("shape", ["jupyter", "kaggle"])
def test_every_format_names_the_line_and_the_cell(tmp_path: Path, shape: str) -> None:
    (tmp_path / "a.ipynb").write_bytes(SHAPES[shape](CELLS))
    found = checked(tmp_path)
    (at,) = [one.location for one in found.findings]
    assert at is not None
    shown = {
        name: render("check", found, name, width=100)
        for name in ("text", "json", "sarif", "github", "markdown", "gitlab")
    }
    assert f"a.ipynb:{at.line}:{at.column} (cell 3, line 6)" in shown["text"]
    assert f"a.ipynb:{at.line}:{at.column} (cell 3, line 6)" in shown["markdown"]
    assert f"file=a.ipynb,line={at.line}," in shown["github"]
    assert "::cell 3, line 6: " in shown["github"]
    place = json.loads(shown["json"])["findings"][0]["location"]
    assert (place["line"], place["cell"], place["cell_line"]) == (at.line, 3, 6)
    (result,) = json.loads(shown["sarif"])["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == at.line
    assert result["locations"][0]["message"]["text"] == "cell 3, line 6"
    assert result["message"]["text"].startswith("cell 3, line 6: ")
    (issue,) = json.loads(shown["gitlab"])
    assert issue["location"]["lines"]["begin"] == at.line
    assert "cell 3, line 6" in issue["description"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_comment_in_the_cell_suppresses_its_line_alone(tmp_path: Path, shape: str) -> None:
    quiet = LOOP.replace("gc.collect()", "gc.collect()  # autotune: ignore[SY006] on purpose")
    (tmp_path / "a.ipynb").write_bytes(SHAPES[shape]([*CELLS, ("code", quiet)]))
    assert places(checked(tmp_path)) == [(3, 6)]
    (tmp_path / "a.ipynb").write_bytes(SHAPES[shape]([*CELLS[:2], ("code", quiet)]))
    assert places(checked(tmp_path)) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_a_baseline_survives_other_cells_and_outputs(tmp_path: Path, shape: str) -> None:
    baseline = tmp_path / "baseline.json"
    (tmp_path / "a.ipynb").write_bytes(SHAPES[shape](CELLS))
    checked(tmp_path, write_baseline=baseline)
    (tmp_path / "a.ipynb").write_bytes(SHAPES[shape]([("code", "x = 1"), ("markdown", "more"), *CELLS]))
    assert places(checked(tmp_path, baseline=baseline)) == []
    (tmp_path / "a.ipynb").write_bytes(SHAPES[shape]([*CELLS, ("code", LOOP.replace("collect()", "collect(1)"))]))
    assert places(checked(tmp_path, baseline=baseline)) == [(4, 6)]


@pytest.mark.parametrize("shape", SHAPES)
def test_changed_looks_at_the_code_and_not_at_the_outputs(tmp_path: Path, shape: str) -> None:
    def git(*words: str) -> None:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "a.ipynb").write_bytes(SHAPES[shape](CELLS))
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    (tmp_path / "a.ipynb").write_bytes(SHAPES[shape]([("markdown", "x"), *CELLS, ("code", LOOP)]))
    assert places(checked(tmp_path, changed="HEAD")) == [(5, 6)]


def test_notes_name_the_cell(tmp_path: Path) -> None:
    cells: list[Cell] = [*CELLS, ("code", "x = ]"), ("code", "y = 1  # autotune: ignore[SY006]")]
    (tmp_path / "a.ipynb").write_bytes(SHAPES["kaggle"](cells))
    found = {note.why.split(":")[0]: note.where for note in checked(tmp_path).notes}
    assert found == {"cell 4 is not read": "a.ipynb:1", "cell 5, line 1": "a.ipynb:1"}
