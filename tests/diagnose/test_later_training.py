"""What is said of a script that goes on to train something else after the window."""

from __future__ import annotations

import pytest
from build import USER, Script, optimizer, recording, window

from autotune.diagnose.later_training import note

STUDENT = {**USER, "line": 93}
BOTH = (optimizer(0), optimizer(1, site=STUDENT))


def trained(*refs, measured=3, optimizers=BOTH):
    """A step of each of these optimizers, the first `measured` of which are the window and its warm-up."""
    script = Script()
    for ref in refs[:measured]:
        script.micro()
        script.update(optimizer=ref)
    seen = window(script, 1)
    for ref in refs[measured:]:
        script.micro()
        script.update(optimizer=ref)
    return recording(script=script, window=seen, optimizers=optimizers)


def test_another_training_after_the_one_that_was_measured_is_named_with_the_way_to_it():
    assert note([trained(0, 0, 0, 0, 0, 1, 1)]) == (
        "another training follows the measured one: its optimizer is made at train.py:93, the measured one's at "
        "train.py:7; --after 5 measures that"
    )


@pytest.mark.parametrize(
    "refs",
    [
        pytest.param((0, 0, 0, 0, 0), id="one training"),
        pytest.param((0, 1, 0, 1, 0, 1), id="two optimizers in turns"),
        pytest.param((0, 0, 0, 1, 0, 1, 0), id="a second one that begins late"),
        pytest.param((1, 1, 0, 0, 0, 0), id="the window reached into the second training"),
    ],
)
def test_nothing_is_said_of_one_training(refs):
    assert note([trained(*refs)]) == ""


@pytest.mark.parametrize(
    "optimizers",
    [
        pytest.param((optimizer(0), optimizer(1)), id="made anew at one line"),
        pytest.param((optimizer(0),), id="gone before it was described"),
    ],
)
def test_nothing_is_said_of_an_optimizer_that_is_no_other(optimizers):
    assert note([trained(0, 0, 0, 1, 1, optimizers=optimizers)]) == ""


def test_nothing_is_said_without_a_window():
    assert note([]) == note([recording(window=None)]) == ""
