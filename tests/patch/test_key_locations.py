"""The key of an edit names its place: what the plan calls it is found by that name."""

from __future__ import annotations

import pytest

from autotune.model.evidence import Location, Span
from autotune.model.patch import Edit
from autotune.patch import syntax_for
from autotune.patch.key_locations import key_locations, key_of, key_to_add


@pytest.mark.parametrize(
    ("at", "argument", "key"),
    [
        (Location("a.py", 1, "add_argument", key="--workers"), "num_workers", "--workers"),
        (Location("a.py", 1, "DataLoader", key="num_workers"), "num_workers", "DataLoader.num_workers"),
        (Location("a.py", 1, "DataLoader"), "batch_size", "DataLoader.batch_size"),
        (Location("a.py", 1, key="BATCH"), "batch_size", "BATCH"),
        (Location("a.yaml", 1, key="rows"), "batch_size", "rows"),
        (Location("run.sh", 1, key="train.lr=1"), "lr", "train.lr"),
    ],
)
def test_the_key_of_a_place(at: Location, argument: str, key: str) -> None:
    assert key_of(at, argument) == key


def found(name: str, text: str, key: str) -> list[str]:
    data = text.encode()
    spans = [one.span for one in key_locations(syntax_for.read(data, name), Edit(name, key, "0", "4"))]
    return [syntax_for.text(data, span) for span in spans if span is not None]


@pytest.mark.parametrize(
    ("name", "text", "key", "values"),
    [
        ("a.py", "x = f(a=1)\ny.f(a=2, b=f(a=3))\n", "f.a", ["1", "2", "3"]),
        ("a.py", "self.n = 1\nn: int\nm = n = 2\n", "n", ["1"]),
        ("a.py", "@click.option('--n', default=1)\ndef main(n): ...\n", "--n", ["1"]),
        ("a.py", "class A:\n    n: int = field(default_factory=lambda: 1)\n    m = 2\n", "--n", ["1"]),
        ("a.py", "def main(m, n=1, *, k=2): ...\n", "--k", ["2"]),
        ("run.sh", "V=0 python t.py --v 0 -v 1 v 2 +a.v=3\n", "a.v", ["+a.v=3"]),
        ("run.sh", "python t.py --a-b 0 --a_b 1\n", "--a_b", ["0", "1"]),
        ("run.sh", "N=1\npython t.py --a $N --b $N\n", "--b", ["1"]),
        ("a.toml", "a.b = 1\n[c]\nb = 2\n", "a.b", ["1"]),
    ],
)
def test_every_place_of_a_key(name: str, text: str, key: str, values: list[str]) -> None:
    assert found(name, text, key) == values


def test_a_call_that_lacks_the_key_is_a_place_too() -> None:
    source = syntax_for.read(b"f(a=f(b=1), c=2)\ng()\nf()\n", "a.py")
    spans = [one.span for one in key_locations(source, Edit("a.py", "f.b", "", "2"))]
    assert spans == [None, Span(8, 9), None]


def test_the_commands_of_a_program_are_places_of_a_flag() -> None:
    script = syntax_for.read(b"python a.py --lr 1\npython b.py --lr 2\ntorchrun a.py\n", "run.sh")
    spans = [one.span for one in key_locations(script, Edit("run.sh", "a.py --lr", "", "3"))]
    assert spans == [Span(17, 18), None]


def test_what_is_imported() -> None:
    source = syntax_for.read(b"from a import b, c\nimport c\n", "a.py")
    assert [one.span for one in key_locations(source, Edit("a.py", "import c", "c", "d"))] == [Span(17, 18)]


def test_a_flag_that_is_added_is_named_with_its_program() -> None:
    data = b"echo\ntorchrun a.py --lr 1\n"
    assert key_to_add(data, Location("run.sh", 2), "workers", "--workers") == "a.py --workers"
    assert key_to_add(b"a = 1\n", Location("a.toml", 1), "b.c", "--c") == "b.c"
    assert key_to_add(b"f()\n", Location("a.py", 1, "f"), "workers", "--workers") == "f.workers"
