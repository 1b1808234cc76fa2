"""Edits that each do what they should are refused where they do not do so together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autotune.errors import UsageError
from autotune.model.evidence import Location
from autotune.model.patch import Edit
from autotune.model.source import Scalar
from autotune.patch import spell
from autotune.patch.joint import confirmed
from autotune.patch.journal import sha256


def added(name: str, text: str, **values: Scalar) -> list[Edit]:
    """The edits that add each key to the file; in a script to its call f, "__" for a dot."""
    data, edits = text.encode(), []
    for key, value in values.items():
        at = Location(name, 1, "f" if name.endswith(".py") else "")
        splice = spell.inserted(data, at, key.replace("__", "."), value, flag=f"--{key}")
        old = data[splice.span.start : splice.span.end].decode()
        edits.append(Edit(name, sha256(data), key, splice.span, old, splice.text))
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
    assert confirmed(before.encode(), added(name, before, a=1, b=2)).decode() == after


@pytest.mark.parametrize(("name", "before"), [("a.yaml", "z: {}\n"), ("a.json", '{"z": {}}'), ("a.toml", "z = {}\n")])
def test_two_keys_of_an_empty_mapping(name: str, before: str) -> None:
    data = before.encode()
    after = confirmed(data, added(name, before, z__a=1, z__b=2))
    assert [(entry.key, entry.value) for entry in spell.read(after, name).entries] == [("z.a", 1), ("z.b", 2)]


@pytest.mark.parametrize(
    ("name", "before"), [("a.yaml", "z: 1\n"), ("a.json", '{"z": 1}'), ("a.toml", "z = 1\n"), ("a.py", "f(z=1)")]
)
def test_a_holder_that_both_would_make_is_refused(name: str, before: str) -> None:
    with pytest.raises(UsageError, match="o__a, o__b cannot be written together"):
        confirmed(before.encode(), added(name, before, o__a=1, o__b=2))
    (alone, _) = added(name, before, o__a=1, o__b=2)
    assert b"a" in confirmed(before.encode(), [alone])


def test_one_key_with_two_values_is_refused() -> None:
    edits = [*added("a.py", "f()", a=1), *added("a.py", "f()", a=2)]
    with pytest.raises(UsageError, match="cannot be written together: one of them would be lost"):
        confirmed(b"f()", edits)


@pytest.mark.parametrize("change", [lambda text: text + ")", lambda text: f"{text}, b="])
def test_what_python_cannot_read_is_refused(change: Callable[[str], str]) -> None:
    (edit,) = added("a.py", "f()", a=1)
    wrong = Edit(edit.file, edit.sha256, edit.key, edit.span, edit.old, change(edit.new))
    with pytest.raises(UsageError, match="could not be read then"):
        confirmed(b"f()", [wrong])
