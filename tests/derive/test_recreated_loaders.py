from __future__ import annotations

import pytest
from build import MS, Script, facts_of, loader, recording

from autotune.derive import subjects


def epochs(*loaders: int, evaluation: int | None = None) -> Script:
    """Two steps on each of the loaders in turn, and a batch of evaluation after them; 139 ms without it."""
    script = Script()
    for each in loaders:
        script.run("iter", 9, each)
        script.step(loader=each)
        script.step(loader=each)
        if evaluation is not None:
            script.evaluate(1, loader=evaluation)
    return script


def made(identity: int, ms: int | None, **changes) -> dict:
    return loader(identity, **changes) | ({} if ms is None else {"made_ns": ms * MS})


def test_a_loader_that_is_made_anew_in_each_epoch_is_one():
    script, rows = epochs(0, 1, 2), (made(0, 0), made(1, 139), made(2, 278))
    assert set(subjects(recording(script, loaders=rows)).values()) == {"loader#train"}
    facts = facts_of("loader#train", script=script, loaders=rows)
    assert facts["loader.batches_per_step"] == 1.0
    assert facts["loader.num_epochs_seen"] == 3


@pytest.mark.parametrize(
    ("each", "is_remade"),
    [
        pytest.param((0, 1, 2), True, id="in every epoch"),
        pytest.param((0, 0, 0, 1, 1, 1), True, id="in every third"),
        pytest.param((0, 0, 0, 0, 1, 1, 1, 1), False, id="for a second stage of many epochs"),
        pytest.param((0, 0, 0), False, id="never"),
    ],
)
def test_how_long_a_loader_lives(each, is_remade):
    firsts = [each.index(identity) for identity in dict.fromkeys(each)]
    rows = tuple(made(identity, 139 * at) for identity, at in enumerate(firsts))
    assert facts_of("loader#train", script=epochs(*each), loaders=rows)["loader.is_remade"] is is_remade


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param((made(0, 0), made(1, 83)), id="made before the first was done"),
        pytest.param((made(0, None), made(1, None)), id="an older recording"),
        pytest.param((made(0, 0), made(1, 139, sampler="SequentialSampler")), id="another sampler"),
        pytest.param((made(0, 0), made(1, 139, arguments={"batch_size": 4})), id="other arguments"),
    ],
)
def test_other_loaders_are_others(rows):
    assert len(set(subjects(recording(epochs(0, 1), loaders=rows)).values())) == 2


def test_one_that_is_used_again_after_the_next_was_made_is_another():
    rows = (made(0, 0), made(1, 139))
    assert len(set(subjects(recording(epochs(0, 1, 0, 1), loaders=rows)).values())) == 2


def test_where_two_could_be_meant_it_is_neither():
    rows = (made(0, 0), made(1, 0), made(2, 300))
    assert len(set(subjects(recording(epochs(0, 1, 2), loaders=rows)).values())) == 3


def test_an_evaluation_loader_that_is_made_anew_is_another_one():
    evaluation = {"sampler": "SequentialSampler"}
    rows = (made(0, 0), made(1, 0, **evaluation), made(2, 200), made(3, 200, **evaluation))
    script = Script()
    for train, other in ((0, 1), (2, 3)):
        script.step(loader=train)
        script.step(loader=train)
        script.evaluate(1, loader=other)
    found = subjects(recording(script, loaders=rows))
    assert (found[0], found[2]) == ("loader#train", "loader#train")
    assert found[1] == found[3] == "loader#1"


def test_one_that_was_never_used_is_none_of_its_own():
    rows = (made(0, 0), made(1, 139))
    assert set(subjects(recording(epochs(0), loaders=rows)).values()) == {"loader#train"}
