from __future__ import annotations

import pytest

from autotune.model.derived import Derived
from autotune.model.evidence import Fact
from autotune.verify.epoch_windows import MOST_EPOCH_S, TRAIN, multiple, observed_epochs, steps_of


@pytest.mark.parametrize(
    ("batches", "per_step", "steps"),
    [(24, 1.0, 24), (24, 4.0, 6), (25, 4.0, 6), (3, 8.0, 1), (None, 1.0, None), (24, None, None), (24, 0.0, None)],
)
def test_steps_of_an_epoch(batches, per_step, steps) -> None:
    assert steps_of(batches, per_step) == steps


def test_a_start_shows_the_length_of_its_training_loader() -> None:
    facts = [Fact("loader.num_batches", TRAIN, 24), Fact("loader.batches_per_step", TRAIN, 2.0)]
    other = Fact("loader.num_batches", "loader#1", 7)
    assert observed_epochs(Derived((*facts, other), (), None)) == 12
    assert observed_epochs(Derived((facts[0], other), (), None)) is None


@pytest.mark.parametrize(
    ("step_s", "epoch_steps", "each"),
    [(0.1, 24, 24), (0.1, None, 1), (MOST_EPOCH_S / 25, 25, 25), (MOST_EPOCH_S / 24, 25, 1)],
)
def test_a_window_holds_whole_epochs_where_these_are_short(step_s, epoch_steps, each) -> None:
    assert multiple(step_s, epoch_steps) == each
