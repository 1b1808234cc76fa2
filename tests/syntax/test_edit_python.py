from __future__ import annotations

import ast

import pytest
from edit_builders import NAMES, SCALARS, changed
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.model.evidence import Span
from autotune.model.source import Scalar
from autotune.syntax import edit_python, python


def replaced(old: str, value: Scalar) -> str:
    data = f"x = {old}  # why\n".encode()
    span = Span(4, 4 + len(old.encode()))
    return changed(data, edit_python.replaced(old, span, value)).decode()[4:].removesuffix("  # why\n")


def added(text: str, key: str, value: Scalar) -> str:
    data = text.encode()
    source = python.read(data, "file")
    call = next(node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    return changed(data, edit_python.keyword(source, call, key, value)).decode()


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("1", 16, "16"),
        ("1_000", 2048, "2_048"),
        ("2**10", 512, "512"),
        ("40 // world_size", 5, "5"),
        ("1e-3", 3e-4, "3e-4"),
        ("1.0e-3", 3e-4, "3.0e-4"),
        ("0.1", 3e-4, "0.0003"),
        ("3e-4", 3e-4, "3e-4"),
        ("1e-3", 0.5, "0.5"),
        ("-1", 3, "3"),
        ("True", False, "False"),
        ("None", "bf16", '"bf16"'),
        ("'fp16'", "bf16", "'bf16'"),
        ('r"fp16"', "bf16", '"bf16"'),
        ("'a'", "it's", '"it\'s"'),
        ("'a'", "é\n\"'", "'\\xe9\\n\"\\''"),
        ("1", None, "None"),
    ],
)
def test_a_literal_is_written_in_the_style_of_the_old(old: str, value: Scalar, new: str) -> None:
    assert replaced(old, value) == new


def test_infinity_has_no_literal() -> None:
    with pytest.raises(UsageError, match="inf"):
        replaced("1.0", float("inf"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f()\n", "f(k=1)\n"),
        ("f( )\n", "f( k=1 )\n"),
        ("f(\n)\n", "f(\n    k=1\n)\n"),
        ("f(a, b=2)\n", "f(a, b=2, k=1)\n"),
        ("f(a, b=2,)\n", "f(a, b=2, k=1,)\n"),
        ("f((a))\n", "f((a), k=1)\n"),
        ("f(a=(1))\n", "f(a=(1), k=1)\n"),
        ("f(a, b=2, **kw)\n", "f(a, b=2, k=1, **kw)\n"),
        ("f(**kw, b=2)\n", "f(**kw, b=2, k=1)\n"),
        ("f(*a)\n", "f(*a, k=1)\n"),
        ("f(\n    a,\n    b=2,  # why\n)\n", "f(\n    a,\n    b=2,  # why\n    k=1,\n)\n"),
        ("f(\n    a,\n    b=2  # why\n)\n", "f(\n    a,\n    b=2,  # why\n    k=1\n)\n"),
        ("f(\r\n\ta,\r\n\tb=2,\r\n)", "f(\r\n\ta,\r\n\tb=2,\r\n\tk=1,\r\n)"),
        ("f(\n    a=2,\n    **kw,\n)\n", "f(\n    a=2,\n    k=1,\n    **kw,\n)\n"),
        ("x = f(a,\n      b=2)\n", "x = f(a,\n      b=2,\n      k=1)\n"),
        ("f(a, c=3,\n  b=2)\n", "f(a, c=3,\n  b=2, k=1)\n"),
        ("f(\n    a, b\n)\n", "f(\n    a, b, k=1\n)\n"),
        ("f(a=g(\n    2,\n))\n", "f(a=g(\n    2,\n), k=1)\n"),
        ("# é\nf('é', a)\n", "# é\nf('é', a, k=1)\n"),
    ],
)
def test_a_keyword_is_added_in_the_style_of_the_call(text: str, expected: str) -> None:
    assert added(text, "k", 1) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(a)\n", 'f(a, c={"k": 1})\n'),
        ("f(c={})\n", 'f(c={"k": 1})\n'),
        ("f(c={'a': 2}, d=3)\n", "f(c={'a': 2, 'k': 1}, d=3)\n"),
        ("f(c={\n  'a': (2),\n})\n", "f(c={\n  'a': (2),\n  'k': 1,\n})\n"),
        ("f(c={**d})\n", 'f(c={**d, "k": 1})\n'),
    ],
)
def test_a_dotted_key_goes_into_a_dict(text: str, expected: str) -> None:
    assert added(text, "c.k", 1) == expected


@pytest.mark.parametrize("text", ["f(k=2)\n", "f(k={'a': 2})\n", "f(x for x in y)\n", "f(k=dict(a=2))\n"])
def test_what_cannot_be_added_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        added(text, "k.a" if "a" in text else "k", 1)


def test_strings_get_the_quotes_of_the_file() -> None:
    assert added("f(a='x', b='y', c=\"z\")", "k", "bf16").endswith("k='bf16')")


def test_a_call_is_found_by_its_line_and_name() -> None:
    text = b"a.Loader(\n  b.Loader(1),\n  Loader(2), Loader(3),\n)\nLoader(4)\n"
    source = python.read(text, "file")
    found = [edit_python.call_at(source, line, "Loader") for line in (1, 2, 3, 4, 5, 6)]
    assert [call and call.lineno for call in found] == [1, 2, None, 1, 5, None]
    assert edit_python.call_at(source, 1, "Other") is None


ARGUMENTS = st.lists(st.sampled_from(["é", "(b)", "[1,\n2]", "'#'", '"""x\n)"""', "*d", "g(1, 2)"]), max_size=3)
KEYWORDS = st.lists(st.tuples(NAMES, st.sampled_from(["1", "(2)", "'a,'", "{'x': 1}", "lambda: (3)"])), max_size=3)
BETWEEN = st.sampled_from([", ", ",", ",\n    ", ",  # c, (\n  ", " ,\n", ",\r\n\t"])


@st.composite
def calls(draw: st.DrawFn) -> bytes:
    """A call in a function, of any style."""
    between, keywords = draw(BETWEEN), dict(draw(KEYWORDS))
    parts = [
        *draw(ARGUMENTS),
        *(f"{key}_={value}" for key, value in keywords.items()),
        *draw(st.sampled_from([[], ["**k"]])),
    ]
    end = draw(st.sampled_from(["", "\n", ",\n", " # end, )\n", ",  # end\n    "])) if parts else ""
    opening = draw(st.sampled_from(["", "\n    ", "  # first\n    "]))
    return f"# é (\ndef h():\n  x = m.f({opening}{between.join(parts)}{end}) + 1 # )\n".encode()


@settings(deadline=None)
@given(calls(), SCALARS)
def test_a_keyword_can_be_added_to_any_call(data: bytes, value: Scalar) -> None:
    source = python.read(data, "file")
    call = edit_python.call_at(source, 3, "f")
    assert call is not None
    after = python.read(changed(data, edit_python.keyword(source, call, "NEW", value)), "file")
    found = edit_python.call_at(after, 3, "f")
    assert found is not None
    assert [repr(ast.literal_eval(one.value)) for one in found.keywords if one.arg == "NEW"] == [repr(value)]
    assert len(found.args) == len(call.args) and len(found.keywords) == len(call.keywords) + 1


@settings(deadline=None)
@given(SCALARS, SCALARS, st.sampled_from(["'", '"']))
def test_any_literal_can_be_replaced(old: Scalar, new: Scalar, quote: str) -> None:
    written = quote + "x" + quote if isinstance(old, str) else repr(old)
    text = replaced(written, new)
    assert repr(ast.literal_eval(text)) == repr(new)
    assert edit_python.replaced(text, Span(0, len(text)), new).text == text
