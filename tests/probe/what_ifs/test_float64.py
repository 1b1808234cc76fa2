from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from autotune.probe.what_ifs import float64
from autotune.probe.what_ifs.batch_buffer import BatchBuffer
from autotune.probe.what_ifs.float64 import Float64Watch

WIDE = 100


@pytest.fixture(autouse=True)
def our_files_are_the_users(monkeypatch):
    """pytest runs this file as a test: for the probe it is what the user wrote, and it names no such type itself."""
    monkeypatch.setattr(float64.call_sites, "is_user", lambda file: file == __file__)
    monkeypatch.setattr(float64, "_user_files", list)


@pytest.fixture
def watched(probed):
    """watched(step): what one step shows."""

    def run(step):
        watch = Float64Watch(probed)
        stop = watch.start()
        step()
        stop()
        return watch.row()

    return run


def table():
    return np.ones((WIDE, WIDE))


def line_of(step):
    return step.__code__.co_firstlineno + 1


def from_numpy():
    return torch.from_numpy(table()) * torch.ones(WIDE)


def tensor():
    return torch.tensor(table()) + 1


def as_tensor():
    return torch.as_tensor(table()).square()


def python_float():
    return torch.zeros(WIDE, WIDE, dtype=float)


def times_an_array():
    return torch.ones(WIDE, WIDE) * table()


@pytest.mark.filterwarnings("ignore:__array_wrap__")
@pytest.mark.parametrize(
    ("step", "source"),
    [
        (from_numpy, "from_numpy"),
        (tensor, "tensor"),
        (as_tensor, "as_tensor"),
        (python_float, "zeros"),
        (times_an_array, "from_numpy"),
    ],
)
def test_the_line_where_it_arises(watched, step, source):
    row = watched(step)
    assert (row["file"], row["line"], row["source"]) == (__file__, line_of(step), source)
    assert row["elements"] >= WIDE * WIDE and row["results"] >= 1 and row["is_asked_for"] is False


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.templates = torch.from_numpy(table())

    def forward(self, x):
        return (x - self.templates).square().mean(-1)


def test_what_has_it_before_the_step_is_named_where_it_is_used(watched):
    model = Matcher()
    row = watched(lambda: model(torch.ones(WIDE, WIDE)))
    assert (row["line"], row["source"]) == (line_of(Matcher.forward), "self.templates")
    assert row["results"] == 3


def test_the_batches_of_a_loader_have_it(watched):
    batches = BatchBuffer()
    batches.offer([torch.from_numpy(table())], {"num_bytes": 8 * WIDE * WIDE})
    assert watched(lambda: batches.next()[0] + 1)["source"] == "the batches"


def test_float32_numbers_and_small_things_are_none(watched):
    def step():
        loss = torch.ones(WIDE, WIDE).mean() * torch.tensor(np.mean([1.0, 2.0]))
        return loss * torch.from_numpy(np.ones(3))

    assert watched(step) is None


def doubled():
    return torch.ones(WIDE, WIDE).double()


def named():
    return torch.ones(WIDE, WIDE, dtype=torch.float64)


def converted():
    return torch.ones(WIDE, WIDE).to(torch.float64)


@pytest.mark.parametrize("ask", [doubled, named, converted])
def test_what_a_line_of_the_step_asks_for_is_asked_for(watched, ask):
    row = watched(lambda: (ask(), from_numpy()))
    assert row["is_asked_for"] is True


def test_updates_are_left_alone(watched, probed):
    probed.recorder.stack.append("optimizer")
    assert watched(from_numpy) is None


def test_the_default_type_is_asked_for(watched):
    torch.set_default_dtype(torch.float64)
    try:
        assert watched(tensor)["is_asked_for"] is True
    finally:
        torch.set_default_dtype(torch.float32)


def test_so_is_a_model_of_it(watched, probed):
    model = nn.Linear(2, 2).double()
    assert watched(tensor)["is_asked_for"] is False
    model(torch.ones(1, 2, dtype=torch.float64))
    assert watched(tensor)["is_asked_for"] is True


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = torch.zeros(3, dtype=torch.float64)", True),
        ("model.double()", True),
        ("a = numpy.zeros(3, numpy.float64)", True),
        ("kind = getattr(torch, 'float64')", True),
        ("x = torch.DoubleTensor(3)", True),
        ("x = torch.zeros(3, dtype=float)  # not double, nor float64", False),
        ('"""Avoids float64."""\ndouble_q = 1', False),
    ],
)
def test_a_file_names_it_in_code(tmp_path, text, names):
    file = tmp_path / "train.py"
    file.write_text(text)
    assert float64._names_it(str(file)) is names


def test_one_that_cannot_be_read_may_name_it(tmp_path):
    assert float64._names_it(str(tmp_path / "gone.py")) is True


def test_the_files_are_those_of_the_users_modules(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setattr(float64.call_sites, "is_user", lambda file: True)
    monkeypatch.setitem(sys.modules, "of_a_user", types.SimpleNamespace(__file__=str(tmp_path / "a.py")))
    monkeypatch.setitem(sys.modules, "of_torch", types.SimpleNamespace(__file__="_classes.py"))
    files = float64._user_files()
    assert str(tmp_path / "a.py") in files and "_classes.py" not in files


@pytest.mark.filterwarnings("ignore:__array_wrap__")
@pytest.mark.parametrize("step", [from_numpy, tensor, as_tensor, python_float, times_an_array])
def test_without_it_everything_is_float32(probed, step):
    undo = float64.without(probed, is_kept=False)
    assert step().dtype is torch.float32
    undo()
    assert step().dtype is torch.float64


def test_kept_it_is_looked_for_and_stays(probed):
    undo = float64.without(probed, is_kept=True)
    assert from_numpy().dtype is torch.float64
    undo()


def test_what_has_it_before_is_made_float32_once_for_each_of_its_versions(probed):
    model = Matcher()
    undo = float64.without(probed, is_kept=False)
    first, x = model(torch.ones(WIDE, WIDE)), torch.ones(WIDE, WIDE)
    assert first.dtype is torch.float32 and first.sum() == 0
    model.templates.add_(1)
    assert model.templates.dtype is torch.float64
    assert model(x).sum() == WIDE
    undo()


def test_gradients_reach_a_parameter_of_it(probed):
    parameter = nn.Parameter(torch.ones(3, dtype=torch.float64))
    undo = float64.without(probed, is_kept=False)
    loss = (torch.cat([parameter, torch.ones(2)]) * 2).sum()
    assert loss.dtype is torch.float32
    loss.backward()
    undo()
    assert parameter.grad.tolist() == [2, 2, 2]


def test_a_call_that_names_it_keeps_it(probed):
    undo = float64.without(probed, is_kept=False)
    assert torch.ones(3, dtype=torch.float64).dtype is torch.float64
    undo()


def test_torch_is_as_it_was_even_inside_a_context_of_the_scripts(probed):
    from_torch = torch.from_numpy
    undo = float64.without(probed, is_kept=False)
    with torch.device("cpu"):
        undo()
        assert torch.from_numpy is from_torch
        assert tensor().dtype is torch.float64
    assert tensor().dtype is torch.float64
    torch.overrides._pop_mode()
    assert not torch.overrides._get_current_function_mode_stack()
