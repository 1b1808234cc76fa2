from __future__ import annotations

import textwrap

import pytest

from autotune.probe.lines import loops, statements


@pytest.fixture
def rows(tmp_path):
    """rows(source): the loops of that source."""

    def of(source):
        file = tmp_path / "train.py"
        file.write_text(textwrap.dedent(source), encoding="utf-8")
        statements.parsed.cache_clear()
        return loops.of_lines((str(file), line) for line in range(1, 40))

    return of


@pytest.mark.parametrize(
    ("body", "carried"),
    [
        ("y = f(x)", []),
        ("total += f(x)", []),
        ("total = total + f(x)", []),
        ("out.append(f(x))", []),
        ("h = f(x, h)", ["h"]),
        ("h, c = f(x, (h, c))", ["c", "h"]),
        ("y = f(x, last)\n    last = y", ["last"]),
        ("self.state = f(x, self.state)", ["self.state"]),
        ("y = f(x)\n    z = g(y)", []),
        ("if x:\n        h = f(x)\n    y = g(h)", ["h"]),
        ("total *= f(x)", []),
        ("total = total + f(x)\n    g(total)", ["total"]),
        ("total += f(total)", ["total"]),
        ("out[i] = f(x)", []),
        ("out[i] += f(x)", []),
        ("ret[t] = r[t] + g * ret[t + 1]", ["ret"]),
        ("out.append(f(out[-1]))", ["out"]),
        ("row = []\n    row.append(f(x))\n    rows.append(row)", []),
        ("self.out.append(f(x))", []),
        ("h = h.add(x).tanh()", ["h"]),
        ("y = x.add(b)\n    z = g(x)", []),
        ("h.mul_(a).add_(x)\n    out.append(h.clone())", ["h"]),
        ("total.add_(f(x))", []),
        ("p.mul_(a)", []),
        ("with autocast():\n        out = m(x)\n        loss = c(out)", []),
        ("for j in js:\n        y = f(x, j)\n        z = g(y)", []),
        ("y = sum(f(i) for i in x)", []),
        ("with autocast():\n        h = m(x, h)", ["h"]),
    ],
)
def test_what_an_iteration_takes_over_from_the_one_before(rows, body, carried):
    row = rows(f"for x in xs:\n    {body}\n")[0]
    assert (row["kind"], row["carried"]) == ("for", carried)


@pytest.mark.parametrize(
    ("body", "fed_back"),
    [
        ("h = cell(x, h)", []),
        ("h, c = self.cell(x, (h, c))\n    out.append(h)", []),
        ("a = cell(x, a)\n    b = other(a, b)", []),
        ("h = cell(y, h)\n    y = read(h)", ["y"]),
        ("h = cell(emb(h), h)", ["h"]),
        ("h = cell(y, h)\n    y = y + read(h)", ["y"]),
        ("h = cell(outs[-1], h)\n    outs.append(read(h))", ["outs"]),
        ("h = cell(y, hx=h)\n    y = read(h)", ["y"]),
    ],
)
def test_what_reaches_the_input_of_the_next_iteration(rows, body, fed_back):
    (row,) = rows(f"for x in xs:\n    {body}\n")
    assert row["fed_back"] == fed_back


def test_a_while_loop_goes_on_by_what_it_did(rows):
    (row,) = rows("while True:\n    f()\n")
    assert (row["kind"], row["carried"]) == ("while", [""])


def test_a_comprehension_is_a_loop(rows):
    (row,) = rows("y = [\n    f(x)\n    for x in xs\n]\n")
    assert (row["kind"], row["line"], row["last"], row["carried"]) == ("comprehension", 1, 4, [])


def test_functions_that_a_loop_defines_are_not_its_body(rows):
    (row,) = rows("for x in xs:\n    f = lambda h: h + 1\n    h = f(x)\n")
    assert row["carried"] == []


def test_a_file_that_cannot_be_read_has_no_loop():
    assert loops.of_lines([("<string>", 1), ("/nowhere.py", 2)]) == []
