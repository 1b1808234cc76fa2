"""Whose steps are counted."""

from __future__ import annotations

import pytest
import torch

from autotune.probe.watch.step_clock import MOST_REST, StepClock

pytestmark = pytest.mark.train

ZERO = """
class Zero:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.parts = [one for group in optimizer.param_groups for one in group["params"]]
        self.step()  # makes the states

    def step(self):
        for group in self.optimizer.param_groups:
            group["params"] = []
        for part, group in zip(self.parts, self.optimizer.param_groups):
            group["params"] = [part]
            self.optimizer.step()
            group["params"] = []
"""


@pytest.fixture
def clock():
    made = StepClock(lambda now: None)
    made.start()
    yield made
    made.stop()


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def test_of_several_optimizers_the_first_is_counted(clock):
    generator, critic = optimizer(), optimizer()
    for _ in range(10):
        generator.step()
        for _ in range(MOST_REST - 1):
            critic.step()
    assert clock.steps == 10


def test_one_optimizer_for_each_parameter_is_one_step(clock):
    """More of them than another may make steps before it takes over."""
    several = [optimizer() for _ in range(2 * MOST_REST)]
    for _ in range(5):
        for each in several:
            each.step()
    assert clock.steps == 5


def test_the_optimizer_of_a_second_phase_takes_over_though_the_first_is_still_there(clock):
    first, helper, second = optimizer(), optimizer(), optimizer()
    for _ in range(100):
        first.step()
        helper.step()
    for _ in range(200):
        second.step()
    assert clock.steps == 100 + 200 - (MOST_REST - 1)


def test_one_that_died_is_followed_at_once(clock):
    for _ in range(3):
        for _ in range(4):
            each = optimizer()
            each.step()
    assert clock.steps == 12


@pytest.mark.parametrize("with_scheduler", [False, True])
def test_an_update_that_deepspeed_makes_group_by_group_is_one_step(clock, with_scheduler):
    """As in its stage3.py. The making of its states is counted too."""
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(3)]
    each = torch.optim.AdamW(groups, lr=0.1)
    if with_scheduler:
        torch.optim.lr_scheduler.ConstantLR(each)
    made = clock.steps
    names = {}
    exec(compile(ZERO, "/lib/deepspeed/runtime/zero/stage3.py", "exec"), names)
    zero = names["Zero"](each)
    for _ in range(5):
        zero.step()
    assert clock.steps - made == 1 + 5
