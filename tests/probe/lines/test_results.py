from __future__ import annotations

import sys

import numpy
import pytest
import torch

from autotune.probe.lines import results


def mark(value):
    return results.marked(value)[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.arange(20.0), torch.arange(20.0)),
        (torch.arange(20.0, requires_grad=True), torch.arange(20.0)),
        (numpy.arange(20), torch.arange(20)),
        ([torch.ones(3), 2], [torch.ones(3), 2]),
        ({"a": torch.ones(3)}, {"a": torch.ones(3)}),
        (torch.ones(20, dtype=torch.bool), torch.ones(20, dtype=torch.bool)),
    ],
)
def test_equal_results_have_equal_marks(one, other):
    assert mark(one) == mark(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.arange(20.0), torch.arange(20.0) + 1e-3),
        (torch.arange(20.0), torch.arange(20.0, dtype=torch.float64)),
        (torch.ones(4, 5), torch.ones(5, 4)),
        ([torch.ones(3), 2], [torch.ones(3), 3]),
    ],
)
def test_others_do_not(one, other):
    assert mark(one) != mark(other)


def test_one_number_of_many_is_noticed_and_so_is_its_place():
    one, other = torch.zeros(100_000), torch.zeros(100_000)
    other[77_777] = 1.0
    assert mark(one) != mark(other)
    one[77_778] = 1.0
    assert mark(one) != mark(other)


def test_a_small_change_far_behind_is_noticed(monkeypatch):
    monkeypatch.setattr(results, "CHUNK", 1000)
    one = torch.full((100_001,), 1e4)
    other = one.clone()
    other[100_000 - 1] += 0.01
    assert mark(one) == mark(one.clone()) != mark(other)


def test_very_large_results_and_long_lists_are_not_compared(monkeypatch):
    monkeypatch.setattr(results, "MOST_NUMBERS", 100)
    assert mark(torch.ones(101)) is None
    assert mark([1.0] * (results.MOST_ITEMS + 1)) is None


@pytest.mark.parametrize("value", [object(), None, [object()], torch.ones(3).to_sparse(), lambda: 0])
def test_what_cannot_be_compared_has_no_mark(value):
    assert mark(value) is None


def test_one_value_throughout_tells_as_much_as_one_number():
    assert results.marked(torch.full((64,), 3))[1] == results.marked(torch.zeros(8, 8))[1] == 1
    assert results.marked(torch.full((64,), 3).index_fill(0, torch.tensor([60]), 2))[1] == 64


def constant():
    return torch.arange(32.0)


def changing(step):
    return torch.arange(32.0) + step


def small():
    return 1


def step(number):
    table = constant()
    again = [constant() for _ in range(3)]
    data = changing(number)
    return table, again, data, small()


LINE = step.__code__.co_firstlineno + 1


@pytest.fixture
def compared():
    """The rows of a comparison of the functions above over some steps, by function and kind."""
    functions = {function.__code__: 0.5 for function in (constant, changing, small)}
    comparison = results.ResultComparison(functions, {(step.__code__, LINE): 0.25, (step.__code__, LINE + 2): 0.1})
    done = False
    number = 0
    while not done:
        step(number)
        number += 1
        done = comparison.on_step()
    table = comparison.table()
    assert sys.gettrace() is None
    assert table["steps"] == results.STEPS == 4
    return {(row["function"], row["kind"], row["line"]): row for row in table["rows"]}


def test_a_function_that_gives_the_same_in_each_step(compared):
    row = compared["constant", "function", constant.__code__.co_firstlineno]
    assert (row["calls"], row["again"], row["distinct"], row["share"], row["bytes"]) == (4.0, 4, 1.0, 0.5, 128)


def test_a_function_that_gives_another_result_in_each_step(compared):
    row = compared["changing", "function", changing.__code__.co_firstlineno]
    assert (row["calls"], row["again"]) == (1.0, 0)


def test_a_result_of_one_number_is_not_compared(compared):
    row = compared["small", "function", small.__code__.co_firstlineno]
    assert row["again"] == 0


def test_an_assignment_is_compared_by_what_it_sets(compared):
    same, data = (compared["step", "line", line] for line in (LINE, LINE + 2))
    assert (same["again"], same["share"]) == (1, 0.25)
    assert data["again"] == 0


def test_a_debugger_is_left_alone():
    def trace(*_):
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        comparison = results.ResultComparison({constant.__code__: 1.0}, {})
        assert comparison.on_step()
        assert comparison.table() is None
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)


def test_nothing_is_compared_where_nothing_is_costly():
    comparison = results.ResultComparison({}, {})
    assert comparison.on_step()
    assert comparison.table() is None
