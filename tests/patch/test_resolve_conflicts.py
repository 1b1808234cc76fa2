"""Edits that each do what they should are refused where they do not do so together."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from ruamel.yaml import YAML

from autotune.errors import UsageError
from autotune.model.evidence import Location
from autotune.model.patch import Edit
from autotune.model.source import Scalar
from autotune.patch import syntax_for
from autotune.patch.key_locations import key_to_add
from autotune.patch.resolve import apply_edits, to_symbolic


def added(name: str, text: str, **values: Scalar) -> list[Edit]:
    """The edits that add each key to the file; in a script to its call f, "__" for a dot."""
    data, edits = text.encode(), []
    for key, value in values.items():
        at = Location(name, 1, "f" if name.endswith(".py") else "")
        path = key.replace("__", ".")
        splice = syntax_for.inserted(data, at, path, value, flag=f"--{key}")
        edit = Edit(name, key_to_add(data, at, path, f"--{key}"), "", syntax_for.literal(value, name))
        edits.append(to_symbolic(data, edit, splice))
    return edits


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.py", "f()", "f(a=1, b=2)"),
        ("a.py", "f( )", "f( a=1, b=2 )"),
        ("a.py", "f(\n)", "f(\n    a=1,\n    b=2\n)"),
        ("a.py", "f(\n    x,\n    y=1  # why\n)", "f(\n    x,\n    y=1,  # why\n    a=1,\n    b=2\n)"),
        ("a.py", "f(**k, **l)", "f(a=1, b=2, **k, **l)"),
        ("a.json", "{}", '{"a": 1, "b": 2}'),
        ("a.json", "{ }", '{ "a": 1, "b": 2 }'),
        ("a.json", '{\n  "z": 1 // c\n}', '{\n  "z": 1, // c\n  "a": 1,\n  "b": 2\n}'),
        ("a.yaml", "{}\n", "{a: 1, b: 2}\n"),
        ("a.yaml", "z: 1", "z: 1\na: 1\nb: 2"),
        ("a.toml", "z = 1\n", "z = 1\na = 1\nb = 2\n"),
        ("a.sh", 'python x.py --z 1 "$@"\n', 'python x.py --z 1 --a 1 --b 2 "$@"\n'),
    ],
)
def test_two_keys_of_one_holder(name: str, before: str, after: str) -> None:
    assert apply_edits(before.encode(), added(name, before, a=1, b=2)).decode() == after


@pytest.mark.parametrize(("name", "before"), [("a.yaml", "z: {}\n"), ("a.json", '{"z": {}}'), ("a.toml", "z = {}\n")])
def test_two_keys_of_an_empty_mapping(name: str, before: str) -> None:
    data = before.encode()
    after = apply_edits(data, added(name, before, z__a=1, z__b=2))
    assert [(entry.key, entry.value) for entry in syntax_for.read(after, name).entries] == [("z.a", 1), ("z.b", 2)]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.yaml", "z: 1\n", 'z: 1\no:\n  a: 1\n  b: "yes"\n  c: 0.5\nw: 2\n'),
        ("a.yaml", "{z: 1}\n", '{z: 1, o: {a: 1, b: "yes", c: 0.5}, w: 2}\n'),
        ("a.yaml", "o: # why\nz: 1", 'o: # why\n  a: 1\n  b: "yes"\n  c: 0.5\nz: 1\nw: 2'),
        ("a.json", '{"z":1}', '{"z":1, "o":{"a":1, "b":"yes", "c":0.5}, "w":2}'),
        (
            "a.json",
            '{\n    "z": 1 // c\n}\n',
            '{\n    "z": 1, // c\n    "o": {\n        "a": 1,\n        "b": "yes",\n        "c": 0.5\n    },\n'
            '    "w": 2\n}\n',
        ),
        ("a.toml", "z = 1\n[q]\nx = 1\n", 'z = 1\nw = 2\n[q]\nx = 1\n\n[o]\na = 1\nb = "yes"\nc = 0.5\n'),
        ("a.py", "f(z=1)", 'f(z=1, o={"a": 1, "b": "yes", "c": 0.5}, w=2)'),
        ("a.py", "f(**k)\nf(o={'b': 3})\n", "f(o={'a': 1, 'b': 'yes', 'c': 0.5}, w=2, **k)\nf(o={'b': 3})\n"),
    ],
)
def test_a_holder_that_several_keys_would_make_is_made_once(name: str, before: str, after: str) -> None:
    data = before.encode()
    edits = added(name, before, o__a=1, o__b="yes", o__c=0.5, w=2)
    assert apply_edits(data, edits).decode() == after


CONSUMERS: Mapping[str, Callable[[str], Any]] = {
    "a.yaml": lambda text: YAML(typ="safe", pure=True).load("%YAML 1.1\n---\n" + text),
    "b.yaml": lambda text: YAML(typ="safe", pure=True).load(text),
    "a.json": json.loads,
    "a.toml": tomllib.loads,
    "a.py": lambda text: eval(text, {"f": dict}),
}
FILES = {
    "yaml": ("y: {}", "{y: {}}", "y:\n    q: 1\n", "x: 1 # last"),
    "json": ("{}", '{"y": {}}', '{\n  "y": 1\n}\n'),
    "toml": ("", "y = {}\n", "[y]\nq = 1\n"),
    "py": ("f()", "f(y={'q': 1})", "f(\n    y=1,  # last\n)", "f(**{'y': 1})"),
}
VALUES = st.one_of(st.booleans(), st.integers(), st.floats(-1e3, 1e3), st.text("a},:{ '\"#ys1.", max_size=5))


@pytest.mark.parametrize("name", CONSUMERS)
@given(
    values=st.dictionaries(st.sampled_from("opq"), st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1)),
    number=st.integers(0, 3),
)
def test_the_consumer_reads_every_key(name: str, values: Mapping[str, Mapping[str, Scalar]], number: int) -> None:
    files = FILES[name.partition(".")[2]]
    before = files[number % len(files)]
    flat = {f"{holder}__{key}": value for holder, held in values.items() for key, value in held.items()}
    edits = [edit for key, value in flat.items() for edit in added(name, before, **{key: value})]
    if edits:
        read = CONSUMERS[name](apply_edits(before.encode(), edits).decode())
        assert read == {**CONSUMERS[name](before), **values}


def test_one_key_with_two_values_is_refused() -> None:
    edits = [*added("a.py", "f()", a=1), *added("a.py", "f()", a=2)]
    with pytest.raises(UsageError, match=r"f\.a cannot be written together: it is 1 now"):
        apply_edits(b"f()", edits)


@pytest.mark.parametrize("change", [lambda text: text + ")", lambda text: f"{text}, b="])
def test_what_python_cannot_read_is_refused(change: Callable[[str], str]) -> None:
    (edit,) = added("a.py", "f()", a=1)
    wrong = replace(edit, new=change(edit.new))
    with pytest.raises(UsageError, match="is not a plain value"):
        apply_edits(b"f()", [wrong])


THREADS = Edit("a.py", "set_num_threads()", "", "4")
PRECISION = Edit("a.py", "set_float32_matmul_precision()", "", "'high'")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_statement_above_other_edits_moves_none_of_them(newline: str) -> None:
    lines = ["import torch", "", "x = f(a=1)", "torch.manual_seed(0)", "g(f(z=2))", ""]
    data = newline.join(lines).encode()
    value, keyword = Edit("a.py", "f.a", "1", "8"), Edit("a.py", "f.y", "", "3", occurrence=2)
    expected = [
        "import torch",
        "",
        "torch.set_num_threads(4)",
        'torch.set_float32_matmul_precision("high")',
        "",
        "x = f(a=8)",
        "torch.manual_seed(0)",
        "g(f(z=2, y=3))",
        "",
    ]
    assert apply_edits(data, [value, THREADS, keyword, PRECISION]).decode() == newline.join(expected)


def test_statements_that_bring_their_import_move_no_other_edit() -> None:
    data = b"from torch import nn\nimport os\nx = f(a=1)\n"
    edits = [THREADS, PRECISION, Edit("a.py", "f.a", "1", "8")]
    lines = 'import torch\n\ntorch.set_num_threads(4)\ntorch.set_float32_matmul_precision("high")\n\n'
    assert apply_edits(data, edits).decode() == f"from torch import nn\nimport os\n{lines}x = f(a=8)\n"


def test_two_values_of_one_statement_are_refused() -> None:
    data = b"import torch\n"
    edits = [replace(THREADS, new=value) for value in ("2", "4")]
    with pytest.raises(UsageError, match=r"set_num_threads\(\) cannot be written together"):
        apply_edits(data, edits)
