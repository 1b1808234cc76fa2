"""Cells that a kernel compiles, at the lines of their notebook; with a compiler as IPython's."""

from __future__ import annotations

import codeop
import inspect
import linecache
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.probe import notebook

SCRIPT = "\n\ndef f():\n    return 1\n\n\nx = f()\ny = x / 0\n\n\nz = 1\nw = z / 0\n\nx = f()\ny = x / 0\n"
CELLS = [
    {"source": "def f():\n    return 1", "line": 3},
    {"source": "x = f()\ny = x / 0", "line": 7},
    {"source": "%%time\nz = 1\nw = z / 0", "line": 10},
    {"source": "x = f()\ny = x / 0", "line": 14},
]


class Compiler(codeop.Compile):
    """What IPython.core.compilerop.CachingCompiler does."""

    def ast_parse(self, source: str, filename: str = "<unknown>", symbol: str = "exec") -> Any:
        return compile(source, filename, symbol, self.flags | 0x400, True)

    def cache(self, transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        return f"/tmp/ipykernel_1/{hash(raw_code)}.py"


@pytest.fixture
def hooked() -> Compiler:
    class Own(Compiler):
        """Its own, because the class is changed."""

    notebook.hook({"path": "/p/a.ipynb", "script": SCRIPT, "cells": CELLS}, SimpleNamespace(CachingCompiler=Own))  # type: ignore[arg-type]
    return Own()


def run_cell(compiler: Compiler, source: str, names: dict[str, Any]) -> tuple[str, int]:
    """Where the cell fails: file and line; ("", 0) where it does not."""
    name = compiler.cache(source, 1, source)
    code = compiler(compiler.ast_parse(source, name), name, "exec")
    return _failure(code, names)


def _failure(code: Any, names: dict[str, Any]) -> tuple[str, int]:
    try:
        exec(code, names)
    except ZeroDivisionError as error:
        assert error.__traceback__ is not None
        at = error.__traceback__.tb_next
        assert at is not None
        return at.tb_frame.f_code.co_filename, at.tb_lineno
    return "", 0


def test_a_cell_is_compiled_under_the_notebooks_name_and_lines(hooked: Compiler) -> None:
    names: dict[str, Any] = {}
    assert run_cell(hooked, "def f():\n    return 1", names) == ("", 0)
    code = names["f"].__code__
    assert (code.co_filename, code.co_firstlineno) == ("/p/a.ipynb", 3)
    assert inspect.getsource(names["f"]) == "def f():\n    return 1\n"
    linecache.checkcache("/p/a.ipynb")
    assert linecache.getline("/p/a.ipynb", 7) == "x = f()\n"
    assert run_cell(hooked, "x = f()\ny = x / 0", names) == ("/p/a.ipynb", 8)


def test_equal_cells_have_the_lines_of_each(hooked: Compiler) -> None:
    names: dict[str, Any] = {"f": lambda: 1}
    lines = [run_cell(hooked, "x = f()\ny = x / 0", names)[1] for _ in range(3)]
    assert lines == [8, 15, 15]


def test_what_a_magic_compiles_below_it_has_its_line_too(hooked: Compiler) -> None:
    tree = hooked.ast_parse("z = 1\nw = z / 0\n")
    assert _failure(hooked(tree, "<timed exec>", "exec"), {}) == ("/p/a.ipynb", 12)


def test_what_is_no_cell_stays_as_it_is(hooked: Compiler) -> None:
    file, line = run_cell(hooked, "a = 1 / 0", {})
    assert file.startswith("/tmp/ipykernel_1/")
    assert line == 1
    tree = hooked.ast_parse("b = 1 / 0")
    assert _failure(hooked(tree, "<timed exec>", "exec"), {}) == ("<timed exec>", 1)
    assert _failure(hooked("\n\nb = 1 / 0", "other.py", "exec"), {}) == ("other.py", 3)
