"""Places of a report on a notebook's run, by cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from notebook_builders import SHAPES, Cell
from report_builders import change, finding, recommendation, report, rule, run, step

from autotune.diagnose.notebook_cells import cell_lines, in_cells
from autotune.invocation.redacted import shown
from autotune.model.finding import Finding
from autotune.model.report import CellLines, HotLine, LineTable, Report

CELLS = CellLines("/p/nb.ipynb", ((20, 1, 3, 1), (21, 1, 3, 2), (25, 7, 4, 1)))


def made(*lines: HotLine, found: Finding | None = None) -> Report:
    table = LineTable(lines=lines, modules=(), known_share=1.0, ops=None, op_us=None)
    several = [recommendation(1, found)] if found is not None else []
    return report(*several, run=run(), step=replace(step(forward=10.0), lines=table))


def line(file: str, number: int) -> HotLine:
    return HotLine(file=file, line=number, end_line=number, function="f", share=0.6, phase_ms={"forward": 6.0})


def placed(of: Report) -> Report:
    return in_cells(replace(of, run=replace(of.run, cells=CELLS)))


def test_a_location_keeps_the_line_of_the_file_beside_its_cell() -> None:
    asked = finding(rule(), "message", change("loader.num_workers", 0, 2, ("/p/nb.ipynb", 21)))
    for found in placed(made(found=asked)).recommendations[0].findings:
        at = found.changes[0].location
        assert at is not None
        assert (at.file, at.line, at.cell, at.cell_line) == ("/p/nb.ipynb", 1, 3, 2)


def test_a_measured_line_is_named_by_its_cell() -> None:
    of = placed(made(line("/p/nb.ipynb", 25), line("/p/other.py", 25), line("/p/nb.ipynb", 30)))
    assert of.step is not None
    assert of.step.lines is not None
    assert [(one.file, one.line) for one in of.step.lines.lines] == [
        ("/p/nb.ipynb cell 4", 1),
        ("/p/other.py", 25),
        ("/p/nb.ipynb", 30),
    ]


def test_a_sentence_names_the_cell() -> None:
    asked = finding(rule(), "f (nb.ipynb:21), g (nb.ipynb:210), h (mynb.ipynb:21)")
    (found,) = placed(made(found=asked)).recommendations[0].findings
    assert found.message == "f (nb.ipynb cell 3:2), g (nb.ipynb:210), h (mynb.ipynb:21)"


def test_any_other_report_stays() -> None:
    of = made(line("/p/nb.ipynb", 25))
    assert in_cells(of) is of


@pytest.mark.parametrize("shape", SHAPES)
def test_the_lines_of_a_notebook(tmp_path: Path, shape: str) -> None:
    cells: list[Cell] = [("markdown", "# T"), ("code", "a = 1\nb = 2"), ("code", "c = 3")]
    (tmp_path / "nb.ipynb").write_bytes(SHAPES[shape](cells))
    found = cell_lines(tmp_path / "nb.ipynb")
    assert found is not None
    assert [row[2:] for row in found.lines] == [(2, 1), (2, 2), (3, 1)]
    assert cell_lines(tmp_path / "train.py") is None
    assert cell_lines(tmp_path / "gone.ipynb") is None
    assert cell_lines(None) is None


def test_the_command_is_shown_without_the_arguments_of_the_kernel(tmp_path: Path) -> None:
    assert shown(["nb.ipynb"], tmp_path, ["kernel.py", "-f", "/tmp/x.json"]) == ("nb.ipynb",)
