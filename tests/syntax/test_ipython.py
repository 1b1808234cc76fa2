"""Cells with magics, as the Python and the shell that is in them."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.syntax import ipython


def python_of(text: str) -> str:
    return ast.unparse(ast.parse(ipython.read(text).python))


def shell_of(text: str) -> list[str]:
    return [line.strip() for line in ipython.read(text).shell.splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("x = 1\n", "x = 1"),
        ("%matplotlib inline\nimport torch", "_\nimport torch"),
        ("if a:\n    !ls\nelse:\n    %pylab", "if a:\n    _\nelse:\n    _"),
        ("files = !ls *.py\nn = %timeit -o f()\nn %= 2", "files = _\nn = _\nn %= 2"),
        ("%time y = f(x)\nz = 1", "_\ny = f(x)\nz = 1"),
        ("%time -n 3 y = f(x)", "_"),
        ("%time for x in y: f(x)", "_"),
        ("torch.nn?\n?DataLoader\nx??", "_\n_\n_"),
        ("pip install torch\nx = 1", "_\nx = 1"),
        ("x = (a\n     % b)\n!ls", "x = a % b\n_"),
        ("s = '''\n!ls\n%cd\n'''\n%cd x", "s = '\\n!ls\\n%cd\\n'\n_"),
        ("x = a \\\n  % b\n!ls", "x = a % b\n_"),
        ('!echo "it\'s (" \\\n  more (\nx = 1', "_\nx = 1"),
        ("%%time\nx = 1", "x = 1"),
        ("\n%%capture out\n%%timeit\nx = 1\n%pdb", "x = 1\n_"),
        ("%%bash\nx = 1", ""),
        ("%%html\n<b>", ""),
        ("await f()\nreturn 3", "await f()\nreturn 3"),
        ("# !ls\n%pdb", "_"),
    ],
)
def test_the_python_of_a_cell(cell: str, python: str) -> None:
    assert python_of(cell) == python
    assert ipython.read(cell).left_out == ""


@pytest.mark.parametrize(
    ("cell", "shell"),
    [
        ("x = 1", []),
        ("!python train.py --lr 1\nx = 1", ["python train.py --lr 1"]),
        ("for i in x:\n    !python train.py \\\n      --seed {i}", ["python train.py \\", "--seed $__"]),
        ("%%bash\nset -e\n\ntorchrun t.py ${A} {x}", ["set -e", "torchrun t.py ${A} {x}"]),
        ("%%script bash\ntorchrun t.py", ["torchrun t.py"]),
        ("%%script perl\nprint 1", []),
        ("out = !python t.py", ["python t.py"]),
        ("%cd repo\n!cd x\n!cd x && python t.py", ["cd repo", "cd x && python t.py"]),
        ("!echo ${HOME} {{x}} {a['b']}", ["echo ${HOME} {{x}} $_______"]),
        ("%%time\n!python t.py", ["python t.py"]),
        ("!python a.py\nx = ]", ["python a.py"]),
    ],
)
def test_what_a_cell_gives_to_a_shell(cell: str, shell: list[str]) -> None:
    assert shell_of(cell) == shell


def test_a_cell_that_does_not_parse_is_blank_and_says_why() -> None:
    code = ipython.read("%%time\nx = 1\ny = (\n")
    assert not code.python.strip()
    assert "never closed" in code.left_out
    assert code.line == 3


def test_a_script_that_a_cell_stores_is_named() -> None:
    code = ipython.read("%%writefile -a train.py\nimport torch\n")
    assert not code.python.strip()
    assert "train.py" in code.left_out
    assert ipython.read("%%writefile a.txt\nx\n").left_out == ""


FRAGMENTS = [
    "%",
    "%%time",
    "!",
    "?",
    "\n",
    "\r\n",
    "\r",
    "  ",
    "x",
    " = ",
    "(",
    ")",
    "'''",
    '"',
    "\\",
    "ls",
    "#",
    "{a}",
    "é",
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_every_character_keeps_its_place(text: str) -> None:
    code = ipython.read(text)
    for made in (code.python, code.shell):
        assert len(made) == len(text)
        assert [at for at, sign in enumerate(made) if sign in "\r\n"] == [
            at for at, sign in enumerate(text) if sign in "\r\n"
        ]
    ast.parse(code.python)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_cell_magics_on_one_another(newline: str) -> None:
    many = f"%%time{newline}" * 3000
    found = ipython.read(f"{many}x = 1")
    assert found.python.split() == ["x", "=", "1"]
    assert len(found.python) == len(many) + 5
    assert ipython.read(f"{many}x = ]").line == 3001
    assert ipython.read(f"%%time{newline}%%bash{newline}torchrun a.py").shell.split() == ["torchrun", "a.py"]
