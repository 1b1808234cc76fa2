from __future__ import annotations

import threading

import pytest

from autotune.probe.hooks.losses import MOST, LossRecorder

torch = pytest.importorskip("torch")


def of(*rows, thread=None):
    losses = LossRecorder()
    for step, tensors, is_scaled in rows:
        losses.note(step, tensors, is_scaled)
    return losses.rows(thread if thread is not None else threading.get_ident())


def test_the_losses_of_a_step_are_summed() -> None:
    rows = of((0, torch.tensor(1.5), False), (0, torch.tensor([2.0]), False), (1, [torch.tensor(0.25)], False))
    assert rows == [3.5, 0.25]


def test_no_backward_is_no_loss() -> None:
    assert of() == []


@pytest.mark.parametrize("tensors", [torch.ones(2), [torch.tensor(1.0), torch.tensor(2.0)], 1.0, []], ids=repr)
def test_what_is_no_single_number_is_unknown_and_so_is_its_step(tensors) -> None:
    assert of((0, torch.tensor(1.0), False), (0, tensors, False), (2, torch.tensor(4.0), False)) == [None, None, 4.0]


def test_a_scaled_loss_is_unknown() -> None:
    assert of((0, torch.tensor(65536.0), True)) == [None]


def test_what_is_not_finite_is_written_in_words_because_json_has_none() -> None:
    values = [torch.tensor(value) for value in (float("nan"), float("inf"), float("-inf"))]
    assert of(*((step, value, False) for step, value in enumerate(values))) == ["nan", "inf", "-inf"]


def test_a_loss_that_is_changed_later_keeps_its_value() -> None:
    losses, value = LossRecorder(), torch.tensor(1.0, requires_grad=True)
    losses.note(0, value, False)
    with torch.no_grad():
        value.fill_(9.0)
    assert losses.rows(0) == [1.0]


def test_only_the_training_thread_waits_for_a_device() -> None:
    losses = LossRecorder()
    losses.note(0, torch.tensor(1.0), False)
    losses._rows.append((1, torch.empty((), device="meta")))
    assert losses.rows(thread=-1) == [1.0, None]


def test_a_device_that_failed_gives_no_loss() -> None:
    losses = LossRecorder()
    losses._rows.append((0, torch.empty((), device="meta")))
    assert losses.rows(threading.get_ident()) == [None]


def test_subclasses_of_tensors_are_left_alone() -> None:
    class Sharded(torch.Tensor):
        pass

    assert of((0, torch.tensor(1.0).as_subclass(Sharded), False)) == [None]


def test_only_so_many_are_kept() -> None:
    losses = LossRecorder()
    for step in range(MOST + 5):
        losses.note(step, 1.0, False)
    assert len(losses.rows(0)) == MOST


def test_cleared_losses_are_forgotten() -> None:
    losses = LossRecorder()
    losses.note(0, torch.tensor(1.0), False)
    losses.clear()
    assert losses.rows(0) == []
