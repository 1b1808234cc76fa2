from __future__ import annotations

import sys

import pytest

from autotune.probe.lines import statements

SOURCE = """\
x = f(
    1,
)
y = 2
for i in range(
    3
):
    z = g(
        i)
self.a, b = 1, 2
x[0] = 1
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SOURCE, encoding="utf-8")
    statements.parsed.cache_clear()
    return str(path)


def test_statements_over_several_lines_and_the_heads_of_loops(file):
    spans = statements.of_lines((file, line) for line in range(1, 12))
    assert spans == [(file, 1, 3), (file, 5, 7), (file, 8, 9)]
    assert statements.of_lines([(file, 4)]) == []


def test_what_an_assignment_gives_values_to(file):
    one = statements.assignment(file, 2)
    assert (one.first, one.last) == (1, 3)
    x = 5
    assert one.values(sys._getframe()) == [x]


def test_attributes_are_read_of_their_object(file):
    class Holder:
        pass

    self, b = Holder(), 7
    self.a = 6
    assert statements.assignment(file, 10).values(sys._getframe()) == [6, b]
    del self.a
    assert statements.assignment(file, 10).values(sys._getframe()) == [None, 7]


@pytest.mark.parametrize("line", [5, 11, 40])
def test_what_is_no_assignment_to_names(file, line):
    assert statements.assignment(file, line) is None
