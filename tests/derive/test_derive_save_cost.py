from __future__ import annotations

import pytest
from build import Script, facts_of


def saving(count, every, beside=0, after=0, ms=30):
    """A save of `ms` with `beside` ms around it, and `after` ms more in the step that follows."""
    script = Script()
    for done in range(1, count + 1):
        script.step()
        if done > every and done % every == 1:
            script.idle(after)
        if done % every == 0:
            script.idle(beside)
            script.run("checkpoint", ms)
    script.step()
    return script


@pytest.mark.parametrize(
    ("script", "save_s"),
    [
        pytest.param(saving(20, 5), 0.030, id="the call alone"),
        pytest.param(saving(20, 5, beside=20), 0.050, id="what is around it"),
        pytest.param(saving(20, 2, beside=20), 0.050, id="every other step saves"),
        pytest.param(saving(10, 5, beside=20), 0.030, id="two saves do not tell"),
        pytest.param(saving(12, 1, beside=20), 0.030, id="no step without one"),
    ],
)
def test_what_a_save_adds_to_its_step(script, save_s):
    facts = facts_of(script=script)
    assert facts["checkpoint.save_s"] == pytest.approx(save_s, abs=2e-3)


def test_the_share_is_of_the_steps_without_it():
    """Five steps of 65 ms and a save of 50."""
    facts = facts_of(script=saving(40, 5, beside=20))
    assert facts["checkpoint.cost_share"] == pytest.approx(50 / (5 * 65 + 50), rel=0.03)
