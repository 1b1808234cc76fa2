"""Notebooks of all shapes as one script, and edits of it as edits of the file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from notebook_builders import SHAPES, Cell, jupyter, kaggle

from autotune.errors import UsageError
from autotune.model.evidence import Location, Span
from autotune.model.source import Splice
from autotune.syntax import notebook

CELLS: list[Cell] = [
    ("markdown", "# Training ü\n\nimport nothing"),
    ("code", "import torch\n%matplotlib inline\n!pip install x\nname = \"a\\tb é 😀\"  # 'q'"),
    ("code", "loader = DataLoader(\n    data,\n    batch_size=8,\n)\n"),
    ("code", ""),
    ("code", "x = ]"),
    ("code", "last = 1"),
]

shapes = pytest.mark.parametrize("shape", SHAPES)


def code(found: notebook.Notebook) -> list[str]:
    return [line for line in found.script.decode().splitlines() if line.strip()]


def edited(data: bytes, old: str, new: str) -> bytes:
    """The notebook with the only `old` of its script replaced; an insertion behind "text^"."""
    found = notebook.read(data, "a.ipynb")
    is_insertion = old.endswith("^")
    text = old.removesuffix("^").encode()
    assert found.script.count(text) == 1
    start = found.script.index(text)
    span = Span(start + len(text), start + len(text)) if is_insertion else Span(start, start + len(text))
    splice = found.splice(Splice(span, new))
    return data[: splice.span.start] + splice.text.encode() + data[splice.span.end :]


def without_sources(data: bytes) -> Any:
    document = json.loads(data)
    for sheet in document.get("worksheets", [document]):
        for cell in sheet["cells"]:
            cell.pop("source", None)
            cell.pop("input", None)
    return document


def sources(data: bytes) -> list[str]:
    document = json.loads(data)
    cells = [cell for sheet in document.get("worksheets", [document]) for cell in sheet["cells"]]
    return ["".join(cell.get("source", cell.get("input"))) for cell in cells]


@shapes
def test_the_script_is_the_python_of_all_cells(shape: str) -> None:
    found = notebook.read(SHAPES[shape](CELLS), "a.ipynb")
    assert [line.rstrip() for line in code(found)] == [
        "import torch", "_", "_", "name = \"a\\tb é 😀\"  # 'q'",
        "loader = DataLoader(", "    data,", "    batch_size=8,", ")", "last = 1",
    ]  # fmt: skip
    assert found.commands.decode().split() == ["pip", "install", "x"]
    assert [(one.at.cell, one.at.cell_line) for one in found.left_out] == [(5, 1)]


@pytest.mark.parametrize("shape", ["jupyter", "vscode", "colab", "old"])
def test_each_line_of_code_has_the_number_that_it_has_in_the_file(shape: str) -> None:
    data = SHAPES[shape](CELLS)
    lines = data.decode().splitlines()
    found = notebook.read(data, "a.ipynb")
    for number, line in enumerate(found.script.decode().split("\n"), start=1):
        if line.strip() and not line.startswith("_"):
            assert json.dumps(line.rstrip("\r"), ensure_ascii="é" not in data.decode())[1:-1] in lines[number - 1]
            at = found.located(Location("a.ipynb", number, column=len(line) - len(line.lstrip()) + 1))
            assert at.line == number
            assert lines[number - 1][at.column - 1] == line.lstrip()[0]


def test_where_the_file_has_no_lines_the_cell_tells() -> None:
    found = notebook.read(kaggle(CELLS), "a.ipynb")
    line = found.script.decode().split("\n").index("    batch_size=8,") + 1
    at = found.located(Location("a.ipynb", line, column=5))
    assert (at.line, at.cell, at.cell_line) == (1, 3, 3)
    assert kaggle(CELLS).decode()[at.column - 1 :].startswith("batch_size=8")
    assert found.script_line(3, 3) == line
    assert found.script_line(1, 1) is None


@shapes
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("batch_size=8", "batch_size=16"),
        ("batch_size=8,^", '\n    pin_memory=True,\n    name="ä\\n",'),
        ("a\\tb", "c\\td\"e'"),
        ("data,\n    batch_size=8", "batch_size=4"),
        ("last = 1^", "\n\ntorch.set_num_threads(4)"),
        ("import torch^", "\nimport os"),
    ],
)
def test_an_edit_changes_the_source_and_no_other_byte(shape: str, old: str, new: str) -> None:
    data = SHAPES[shape](CELLS)
    after = edited(data, old, new)
    text = old.removesuffix("^")
    expected = [one.replace(text, text + new if old.endswith("^") else new) for one in sources(data)]
    assert sources(after) == expected
    assert without_sources(after) == without_sources(data)
    # Lines of the file that hold none of the edit are the same bytes in the same order.
    if shape != "kaggle":
        before, now = data.split(b"\n"), after.split(b"\n")
        head = next(at for at, (one, other) in enumerate(zip(before, now, strict=False)) if one != other)
        tail = next(at for at, (one, other) in enumerate(zip(before[::-1], now[::-1], strict=False)) if one != other)
        assert len(now) - head - tail <= 1 + new.count("\n") + text.count("\n")


@shapes
def test_a_new_line_goes_into_the_list_as_the_file_writes_lists(shape: str) -> None:
    after = edited(SHAPES[shape](CELLS), "last = 1^", "\nx = 2")
    cells = json.loads(after).get("cells") or json.loads(after)["worksheets"][0]["cells"]
    source = cells[-1].get("source", cells[-1].get("input"))
    assert source == ("last = 1\nx = 2" if shape == "kaggle" else ["last = 1\n", "x = 2"])
    if shape != "kaggle":  # the notebook's own writer would write the same
        assert after == SHAPES[shape]([*CELLS[:-1], ("code", "last = 1\nx = 2")])


def test_an_edit_of_two_cells_is_refused() -> None:
    found = notebook.read(jupyter(CELLS), "a.ipynb")
    start, end = found.script.index(b"import torch"), found.script.index(b"last = 1")
    with pytest.raises(UsageError, match="not in one cell"):
        found.splice(Splice(Span(start, end), "x"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "not a notebook"),
        (b"[]", "it has no cells"),
        (b'{"cells": {}}', "it has no cells"),
        (b"[" * 100_000, "not a notebook"),
        (b"\xff", "not text"),
    ],
)
def test_what_is_no_notebook_is_said_with_its_place(data: bytes, why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        notebook.read(data, "a.ipynb")
    assert raised.value.where.startswith("a.ipynb:")


def test_only_python_is_read() -> None:
    cells: list[Any] = [
        {"cell_type": "code", "source": "a = 1", "metadata": {"vscode": {"languageId": "sql"}}},
        {"cell_type": "code", "source": "b = 1\ud800"},
        {"cell_type": "code", "source": [3, "c = 1"], "metadata": None},
        {"cell_type": "raw", "source": "d = 1"},
        "e = 1",
        {"cell_type": "code", "source": None},
    ]
    data = json.dumps({"cells": cells, "metadata": []}).encode()
    assert code(notebook.read(data, "a.ipynb")) == ["c = 1"]
    other = {"cells": [{"cell_type": "code", "source": "a = 1"}], "metadata": {"kernelspec": {"language": "R"}}}
    assert not notebook.read(json.dumps(other).encode(), "a.ipynb").script.strip()


KEYS = st.sampled_from(["cells", "source", "cell_type", "worksheets", "input"])
VALUES = st.recursive(
    st.sampled_from(["cells", "source", "x = 1\n", 1, None]),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
)


@given(VALUES)
def test_no_json_breaks_the_reader(value: Any) -> None:
    for document in (value, {"cells": value}, {"worksheets": value}, {"cells": [value], "cell_type": "code"}):
        try:
            notebook.read(json.dumps(document).encode(), "a.ipynb")
        except UsageError:
            continue
