"""A statement goes below the imports that follow the one it needs, and changes nothing else that Python reads."""

from __future__ import annotations

import ast

import pytest
from edit_builders import SCALARS, changed
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.model.source import Scalar
from autotune.syntax import edit_statement, python

FUNCTION = "torch.set_num_threads"


def after(data: bytes, value: Scalar = 4, function: str = FUNCTION) -> bytes:
    return changed(data, edit_statement.inserted(python.read(data, "t.py"), function, value))


TRY = "\ntry:\n    import apex\nexcept ImportError:\n    apex = None\n"


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("import torch", "\n\nx = 1\n"),
        ("import torch", ""),
        ("import torch", "\n"),
        ("import torch;", "\n \nx = 1\n"),
        ('"""Trains."""\nimport os\nimport torch', "\n\n\ndef f(): ...\n"),
        ("from __future__ import annotations\nimport torch", "\n\n"),
        ("#!/usr/bin/env python\n# why\nimport torch # t", "\n\n1\n"),
        ("if a:\n\tb\nimport torch", "\n\nif a:\n\tb\n"),
        ("import torch\nfrom a import (\n    b,  # )\n    c,\n)  # why", "\n\nx = 1\n"),
        ("import torch\n\n# third\n\nfrom a import b, \\\n    c", "\n\nx = 1\n"),
        ("import torch.nn as nn\nimport torch.utils.data", "\n\nnn\n"),
        ("\ufeffimport torch", "\n\nx = 1\n"),
        ("import torch", "\n\n\ndef f(torch):\n    torch = [torch for torch in 'ab']\n"),
    ],
)
def test_it_stands_below_the_imports(head: str, tail: str) -> None:
    assert after(f"{head}{tail}".encode()).decode() == f"{head}\n\ntorch.set_num_threads(4){tail}"


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("import torch", "\nx = 1\n"),
        ("import torch", "\n# why\nx = 1\n"),
        ("import torch; x = 1", "\nimport os\n"),
        ("import os; import torch; x = [\n1]; y = 2", "\nz = 3\n"),
        ("import torch\nimport sys", "\nsys.path.insert(0, '.')\nimport mine\n"),
        ("import torch", TRY),
        ("import torch", "\nif TYPE_CHECKING:\n    import torch.nn\n"),
        ("import torch", "\n@decorated\ndef f(): ...\n"),
        ("x = 'é'\nimport torch", "\nx\n"),
    ],
)
def test_it_is_set_off_from_what_follows(head: str, tail: str) -> None:
    assert after(f"{head}{tail}".encode()).decode() == f"{head}\n\ntorch.set_num_threads(4)\n{tail}"


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("import os", "\nx = 1\n"),
        (
            '"""Trains."""\nfrom __future__ import annotations\nfrom torch import nn\nfrom mine import (\n    a,\n)',
            "\nx = 1\n",
        ),
        ("import torch.nn as nn", "\nx = 1\n"),
    ],
)
def test_a_file_without_the_import_gets_it_too(head: str, tail: str) -> None:
    written = after(f"{head}{tail}".encode())
    assert written.decode() == f"{head}\nimport torch\n\ntorch.set_num_threads(4)\n{tail}"
    place = edit_statement.insertion_point(python.read(f"{head}{tail}".encode(), "t.py"), "torch")
    assert written.splitlines()[place.line - 1] == b"torch.set_num_threads(4)"


def test_it_breaks_lines_as_the_file_does() -> None:
    data = b"import torch\r\nimport os\r\nx = 1\r\n"
    assert after(data) == b"import torch\r\nimport os\r\n\r\ntorch.set_num_threads(4)\r\n\r\nx = 1\r\n"


def test_the_name_of_the_module_is_the_files_own() -> None:
    assert after(b"import os, torch as t\n") == b"import os, torch as t\n\nt.set_num_threads(4)\n"
    assert after(b"import torch\n", True, "torch.autograd.set_detect_anomaly").endswith(
        b"torch.autograd.set_detect_anomaly(True)\n"
    )


def test_strings_get_the_quotes_of_the_file() -> None:
    assert b"torch.set_num_threads('high')" in after(b"import torch\nx = 'a'\ny = 'b'\n", "high")
    assert b'torch.set_num_threads("high")' in after(b"import torch\n", "high")


def test_a_file_in_latin_1_stays_one() -> None:
    data = "# coding: latin-1\nx = 'ü'\nimport torch  # ü\nx = 'ü'\n".encode("latin-1")
    expected = "# coding: latin-1\nx = 'ü'\nimport torch  # ü\n\ntorch.set_num_threads(4)\n\nx = 'ü'\n"
    assert after(data) == expected.encode("latin-1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1\n", "t.py imports nothing"),
        ("import os\ntorch = None\n", "t.py:2 makes torch something else than torch"),
        ("import os\ntry:\n    import torch\nexcept ImportError:\n    pass\n", "t.py:3 imports torch only in a block"),
        ("if x:\n    import torch as t\n", "t.py:2 imports torch only in a block or a function"),
        ("if TYPE_CHECKING:\n    import torch\n", "t.py:2 imports torch only in a block or a function"),
        ("def f():\n    import torch.nn\n", "t.py:2 imports torch only in a block or a function"),
        ("import torch\ntorch = None\n", "t.py:2 makes torch something else than torch"),
        ("import torch as t\nfor t in 'ab': ...\n", "t.py:2 makes t something else than torch"),
        ("import torch\nfrom mine import torch\n", "t.py:2 makes torch something else than torch"),
        ("import torch\nimport mine as torch\n", "t.py:2 makes torch something else than torch"),
        ("import torch\ndef torch(): ...\n", "t.py:2 makes torch something else than torch"),
        ("import torch\rx = 1\r", "cannot be added here"),
    ],
)
def test_where_there_is_no_place_it_is_said_why(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=r"cannot|imports nothing|only in|else than") as raised:
        after(text.encode())
    assert raised.value.what.startswith(why) or raised.value.what.endswith(why)


def test_the_place_is_the_line_that_it_will_have() -> None:
    data = b"import os\nimport torch\nx = 1\n"
    place = edit_statement.insertion_point(python.read(data, "t.py"), "torch")
    assert after(data).splitlines()[place.line - 1] == b"torch.set_num_threads(4)"


LINES = st.sampled_from(
    [
        "import torch",
        "import torch as t",
        "import torch.nn",
        "import os, torch",
        "from a import (\n  b,\n)",
        "import a; x = 1",
        "x = '''\nimport torch\n'''",
        "# é import torch",
        "",
        "   ",
        "@f\ndef g(): ...",
        "if x:\n    import torch",
        "sys.path.insert(0, 'é')",
        "try:\n\timport b\nexcept E: pass",
        "import c  # why",
        "class A:\n    import torch",
        "x = [\n1,\n]; import d; y = 2",
    ]
)


@settings(deadline=None)
@given(st.lists(LINES, max_size=7), st.sampled_from(["\n", "\r\n"]), st.booleans(), SCALARS)
def test_any_header_gets_one_statement_more_or_none(lines: list[str], end: str, ends: bool, value: Scalar) -> None:
    data = (end.join(line.replace("\n", end) for line in lines) + end * ends).encode()
    before = python.read(data, "t.py").tree.body
    has_import = any(isinstance(node, ast.Import) and edit_statement._name(node, "torch") for node in before)
    has_inner = b"    import torch" in data and not has_import
    imports = [isinstance(node, ast.Import | ast.ImportFrom) for node in before]
    is_split = not has_import and "".join("i" if one else "-" for one in imports).strip("-").count("-")
    if has_inner or is_split or not any(imports):
        with pytest.raises(UsageError):
            after(data, value)
        return
    body = python.read(new := after(data, value), "t.py").tree.body
    added = [node for node in body if isinstance(node, ast.Expr) and b"set_num_threads" in ast.unparse(node).encode()]
    assert len(body) == len(before) + (1 if has_import else 2)
    assert [repr(ast.literal_eval(one.value.args[0])) for one in added if isinstance(one.value, ast.Call)] == [
        repr(value)
    ]
    at = body.index(added[0])
    bound = [node for node in body[:at] if isinstance(node, ast.Import) and edit_statement._name(node, "torch")]
    assert bound
    assert (b"\r" in new) is (b"\r" in data and b"\r\n" in new)
