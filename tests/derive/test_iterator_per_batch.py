from __future__ import annotations

import pytest
from build import MS, Script, facts_of, loader, steps, what_if

ALONE = what_if("loader_alone", {"loader": 0, "num_workers": 0}, batch_ns=[4 * MS] * 8, start_ns=MS, cpu_ns=MS)


def restarting(count: int = 4, start_ms: int = 25, batches_of_each: int = 1) -> Script:
    """Steps of 100 ms, 10 of which are a fetch; every `batches_of_each`th begins with a new iterator."""
    script = Script()
    for number in range(count):
        if number % batches_of_each == 0:
            script.run("iter", start_ms, 0)
        else:
            script.idle(start_ms)
        script.micro(fetch=10, forward=20, backward=40)
        script.update(5)
    return script


def test_a_new_iterator_in_each_step():
    facts = facts_of(script=restarting(), what_ifs=(ALONE,))
    assert facts["step.starts_loader"] is True
    assert facts["step.loader_start_share"] == pytest.approx((25 + 10 - 4) / 100)


def test_workers_that_live_on_would_save_all_of_the_wait():
    facts = facts_of(script=restarting(), loaders=(loader(arguments={"num_workers": 2}),))
    assert facts["step.loader_start_share"] == pytest.approx(35 / 100)


def test_what_a_batch_costs_is_not_known_where_it_was_not_tried():
    assert "step.loader_start_share" not in facts_of(script=restarting())


@pytest.mark.parametrize(
    ("script", "num_batches"),
    [
        pytest.param(steps(4), 100, id="one iterator"),
        pytest.param(restarting(8, batches_of_each=2), 2, id="epochs of two batches"),
        pytest.param(restarting(), 1, id="an epoch of one batch"),
    ],
)
def test_epochs_are_no_restarts(script: Script, num_batches: int):
    facts = facts_of(script=script, loaders=(loader(num_batches=num_batches),), what_ifs=(ALONE,))
    assert facts["step.starts_loader"] is False
    assert "step.loader_start_share" not in facts


def test_without_a_loader_nothing_is_said():
    script = Script()
    for _ in range(4):
        script.forward(20)
        script.run("backward", 30)
        script.update()
    assert "step.starts_loader" not in facts_of(script=script)


def test_an_epoch_of_one_batch_starts_with_each_whatever_wraps_the_loader():
    wrapped = (loader(0, num_batches=None), loader(1, num_batches=1, wraps=0))
    script = Script()
    for _ in range(4):
        script.run("iter", 25, 1)
        script.fetch(10, loader=1)
        script.forward(20)
        script.run("backward", 40)
        script.update(5)
    assert facts_of(script=script, loaders=wrapped)["step.starts_loader"] is False
