"""Whatever valid Python is read: no traceback, and no more than a little time."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from scanning import facts, scan

from autotune.errors import UsageError
from autotune.scan.read_script import read_script
from autotune.syntax import python

SCRIPTS = sorted((Path(__file__).parents[3] / "fixtures" / "scripts").glob("*.py"))

NAMES = ("x", "args", "loader", "model", "loss", "self", "parser", "f", "C", "torch", "DataLoader")

EXPRESSIONS = st.recursive(
    st.sampled_from([*NAMES, "1", "'cuda'", "None", "True", "0.5"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["to", "item", "backward", "step", "x", "update"])).map(".".join),
        st.tuples(inner, inner).map("{0[0]}({0[1]})".format),
        st.tuples(inner, inner).map("{0[0]}(**{0[1]})".format),
        st.tuples(inner, inner).map("({0[0]} % {0[1]})".format),
        st.tuples(inner, inner).map("{0[0]}[{0[1]}]".format),
        st.tuples(inner, inner, inner).map("({0[0]} if {0[1]} else {0[2]})".format),
        st.tuples(inner, inner).map("{{'a': {0[0]}, **{0[1]}}}".format),
        st.tuples(inner, inner).map("[{0[0]} for x in {0[1]}]".format),
        inner.map("(lambda x: {})".format),
        inner.map("(y := {})".format),
    ),
    max_leaves=8,
)

LINES = st.one_of(
    st.tuples(st.sampled_from(NAMES), EXPRESSIONS).map("{0[0]} = {0[1]}".format),
    st.tuples(st.sampled_from(NAMES), EXPRESSIONS).map("{0[0]}, args.x = {0[1]}".format),
    st.tuples(st.sampled_from(NAMES), EXPRESSIONS).map("{0[0]}.x += {0[1]}".format),
    st.tuples(st.sampled_from(NAMES), EXPRESSIONS).map("{0[0]}['x'] = {0[1]}".format),
    EXPRESSIONS,
    EXPRESSIONS.map("import torch\nDataLoader({}, num_workers=x, **args)".format),
)

HEADS = st.one_of(
    st.tuples(st.sampled_from(NAMES), EXPRESSIONS).map("for {0[0]} in {0[1]}:".format),
    EXPRESSIONS.map("if {}:".format),
    EXPRESSIONS.map("while {}:".format),
    EXPRESSIONS.map("with {} as x:".format),
    st.sampled_from(NAMES).map("def {}(self, x=1, *args, loss=x, **model):".format),
    st.sampled_from(NAMES).map("class {}(C):".format),
)


def indented(block: tuple[str, list[str]]) -> str:
    head, lines = block
    return "\n".join([head, *("    " + line for text in lines for line in text.splitlines())])


BLOCKS = st.recursive(
    LINES, lambda inner: st.tuples(HEADS, st.lists(inner, min_size=1, max_size=3)).map(indented), max_leaves=12
)


@settings(max_examples=150, deadline=None)
@drawn(st.lists(BLOCKS, max_size=6).map("\n".join))
def test_any_code_is_read(code: str) -> None:
    try:
        ast.parse(code)
    except SyntaxError:
        return
    scan(code)


@settings(max_examples=60, deadline=None)
@drawn(st.sampled_from(SCRIPTS), st.integers(0, 2**32))
def test_scripts_with_lines_lost_or_moved_are_read(path: Path, seed: int) -> None:
    draw = random.Random(seed)
    lines = path.read_text().splitlines()
    for _ in range(draw.randint(1, 5)):
        start = draw.randrange(len(lines) - 1)
        moved = [lines.pop(start)]
        place = draw.randrange(len(lines))
        lines[place:place] = draw.choice([[], moved, moved * 2])
    try:
        source = python.read("\n".join(lines).encode(), path.name)
    except UsageError:
        return
    read_script(source, path.name)


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 8


@pytest.mark.parametrize(
    "code",
    [
        "a" + ".b" * 900 + "()",
        "x = " + "+".join(["x"] * 900),
        "x = " + "-" * 90 + "1\nDataLoader(x=x)",
        "\n".join(f"x{i + 1} = x{i} + x{i}" for i in range(500)) + "\nDataLoader(x=x500)",
        "\n".join(f"def f{i}(x):\n    return f{i + 1}(x) + f{i + 1}(x)" for i in range(200)) + "\nDataLoader(x=f0(1))",
        "\n".join(f"def f{i}(x):\n    f{i + 1}(x)\n    f{i + 1}(x)\n    loss.backward()" for i in range(60))
        + "\nfor x in y:\n    f0(x)",
        "".join("    " * i + f"for x{i} in x{i - 1}:\n" for i in range(15)) + "    " * 15 + "x.backward(); opt.step()",
        "class A(A):\n    x = A.x\n    def f(self):\n        return self.f().x\nDataLoader(x=A().f().x)",
        "def f(x=f(x)):\n    return f(x)\nDataLoader(x=f(f))",
        "d = {**d}\nd.update(d)\nDataLoader(**d)",
        "x: int\n(x) = y = z = 1\ndel x\nDataLoader(x=x)",
        "match x:\n    case {'a': a, **rest}:\n        DataLoader(x=a)\n    case [*b]:\n        DataLoader(x=b)",
        "async def f():\n    async for x in y:\n        async with z as w:\n            await x.backward()",
        "from . import x\nfrom .. import *\nfrom torch.utils.data import *\nDataLoader(d)",
        "",
        pytest.param("def f():\n    return\nmodel.to(f())\nloss.backward()", id="a bare return that is used"),
    ],
)
def test_odd_and_hostile_code_is_read(code: str) -> None:
    assert scan("from torch.utils.data import DataLoader\n" + code).file == "train.py"


def test_a_chain_of_sums_is_not_worked_out_again_and_again() -> None:
    chain = "\n".join(f"x{i + 1} = x{i} + x{i}" for i in range(30))
    script = scan(f"from torch.utils.data import DataLoader\nx0 = 1\n{chain}\nDataLoader(d, num_workers=x30)")
    assert script.calls[0].arguments["num_workers"].value == 2**30


def test_a_script_that_trains_nothing_states_only_what_it_has() -> None:
    assert facts(scan("import torch\nprint(torch.__version__)")) == {}
    assert facts(scan("import torch\nmodel = torch.nn.DataParallel(model)")) == {"code.uses_data_parallel": True}


@pytest.mark.parametrize(
    "code",
    [
        "\n".join(f"kw{i} = {{}}\nkw{i}.update(kw{max(0, i - 1)})\nDataLoader(d, **kw{i})" for i in range(400)),
        "kw = {}\n" + "\n".join(f"kw['k{i}'] = {i}\nDataLoader(d, **kw)" for i in range(400)),
        "\n".join(
            f"def f{i}(a, b):\n    f{i + 1}(a, b)\n    f{i * 7 % 400}(b, a)\n    DataLoader(a, x=b)" for i in range(400)
        ),
        "\n".join(
            f"class C{i}(C{i - 1}, C{i - 2}):\n    def f(self):\n        DataLoader(x=self.x)" for i in range(2, 200)
        ),
        "\n".join(f"args.x = args.x + {i}\nDataLoader(x=args.x)" for i in range(400)),
    ],
)
def test_code_that_no_person_wrote_ends(code: str) -> None:
    assert scan("from torch.utils.data import DataLoader\n" + code).calls
