from __future__ import annotations

import functools

import pytest
import torch


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 1)


def micro_step(model):
    model(torch.ones(2, 4)).sum().backward()


def refs(session, kind="optimizer"):
    return [event[3] for event in session.recorder.events if event[0] == kind]


def steps(session):
    return len(session.window.step_ends)


def test_a_plain_loop(probed, model, kinds):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        micro_step(model)
        optimizer.step()
    assert kinds() == ["forward", "backward", "optimizer"] * 3
    assert steps(probed) == 3
    assert probed.window.steps_by == "optimizer"


def test_accumulation_counts_optimizer_steps_and_not_backwards(probed, model, kinds):
    optimizer = torch.optim.AdamW(model.parameters())
    for micro in range(1, 9):
        micro_step(model)
        if micro % 4 == 0:
            optimizer.step()
    assert (steps(probed), kinds().count("backward")) == (2, 8)


def test_of_two_optimizers_the_one_that_steps_first_counts(probed):
    networks = [torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)]
    optimizers = [torch.optim.Adam(network.parameters()) for network in networks]
    for _ in range(3):
        for number in (1, 1, 0):
            micro_step(networks[number])
            optimizers[number].step()
    assert refs(probed) == [1, 1, 0] * 3
    assert steps(probed) == 6


def test_a_step_that_calls_its_parents_step_is_one_step(probed, model):
    class Projected(torch.optim.SGD):
        def step(self, closure=None):
            loss = super().step(closure)
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.data.clamp_(-1, 1)
            return loss

    torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = Projected(model.parameters(), lr=0.1)
    micro_step(model)
    optimizer.step()
    assert refs(probed) == [1]
    assert steps(probed) == 1


def test_a_wrapper_that_steps_its_own_optimizer_is_one_step(probed, model):
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner):
            super().__init__(inner.param_groups, {})
            self.inner = inner

        def step(self, closure=None):
            return self.inner.step(closure)

    optimizer = Wrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    micro_step(model)
    optimizer.step()
    assert refs(probed) == [1]


def test_lbfgs_runs_its_closure_inside_the_step(probed, model):
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = (model(torch.ones(2, 4)) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    (step,) = [event for event in probed.recorder.events if event[0] == "optimizer"]
    inside = [event for event in probed.recorder.events if event[0] == "backward"]
    assert len(inside) >= 2
    assert all(step[1] <= event[1] <= event[2] <= step[2] for event in inside)
    assert steps(probed) == 1
    closures = [event for event in probed.recorder.events if event[0] == "closure"]
    assert len(closures) == len(inside)
    assert all(one[1] <= event[1] <= event[2] <= one[2] for one, event in zip(closures, inside, strict=True))


@pytest.mark.parametrize("by_name", [True, False])
def test_a_closure_is_the_scripts_and_not_the_update(probed, model, kinds, by_name):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure():
        micro_step(model)
        return 7

    given = functools.partial(closure)
    assert (optimizer.step(closure=given) if by_name else optimizer.step(given)) == 7
    assert kinds() == ["forward", "backward", "closure", "optimizer"]
    assert steps(probed) == 1


def test_what_a_step_is_given_is_the_same_object_unless_it_is_a_plain_function(probed, model):
    class Odd(torch.optim.SGD):
        def step(self, network, closure=None):
            return network, closure

    class Closure:
        def __call__(self):
            return 7

    closure = Closure()
    assert Odd(model.parameters(), lr=0.1).step(model, closure=closure) == (model, closure)


def test_a_step_that_raises_is_closed_and_the_next_one_counts(probed, model):
    class Moody(torch.optim.SGD):
        calls = 0

        def step(self, closure=None):
            self.calls += 1
            if self.calls == 1:
                raise ValueError("not yet")
            return super().step(closure)

    optimizer = Moody(model.parameters(), lr=0.1)
    micro_step(model)
    with pytest.raises(ValueError, match="not yet"):
        optimizer.step()
    assert probed.recorder.failed_phase == "optimizer"
    assert probed.recorder.stack == []
    done = steps(probed)
    optimizer.step()
    assert steps(probed) == done + 1


def test_an_update_without_an_optimizer_counts_backwards(probed, model, kinds):
    for _ in range(3):
        micro_step(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    assert (probed.window.steps_by, steps(probed)) == ("backward", 3)
    assert "optimizer" not in kinds()


def test_a_new_optimizer_takes_over_when_the_first_is_gone(probed, model):
    for _ in range(2):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        micro_step(model)
        optimizer.step()
        del optimizer
    assert steps(probed) == 2


@pytest.mark.parametrize(
    ("after", "others", "counted"),
    [
        pytest.param(0, 30, 5, id="the window is in the first training"),
        pytest.param(3, 30, 5, id="nobody asked for more than the first training"),
        pytest.param(5, 30, 5 + 21, id="the first training is passed"),
        pytest.param(5, 9, 5, id="it may have another turn"),
    ],
)
def test_another_optimizer_takes_over_when_the_first_has_stopped_before_the_window(
    attach, model, after, others, counted
):
    session = attach(after=after, warmup=40)
    first, second = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())
    for optimizer in [first] * 5 + [second] * others:
        micro_step(model)
        optimizer.step()
    assert steps(session) == counted


def test_a_learning_rate_scheduler_leaves_the_steps_as_they_are(probed, model, recwarn):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(2):
        micro_step(model)
        optimizer.step()
        scheduler.step()
    assert refs(probed) == [0, 0]
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.001)
    assert len(recwarn) == 0


def test_the_users_step_hooks_run_once(probed, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    micro_step(model)
    optimizer.step()
    assert calls == ["before", "after"]


@pytest.fixture
def scaler():
    return torch.amp.GradScaler("cpu", init_scale=4.0)


def scaled_step(scaler, model, optimizer, factor=1.0):
    optimizer.zero_grad()
    loss = (model(torch.ones(2, 4)) * factor).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def test_a_step_that_the_scaler_skips_is_marked_and_not_counted(probed, model, scaler, kinds):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaled_step(scaler, model, optimizer)
    scaled_step(scaler, model, optimizer, factor=float("inf"))
    scaled_step(scaler, model, optimizer)
    assert kinds("optimizer", "scaler_skip") == ["optimizer", "scaler_skip", "optimizer"]
    assert steps(probed) == 2
    assert probed.torch_state["grad_scaler"] is True


def test_a_disabled_scaler_is_no_scaler(probed, model, kinds):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaled_step(torch.amp.GradScaler("cpu", enabled=False), model, optimizer)
    assert kinds("optimizer", "scaler_skip") == ["optimizer"]
    assert "grad_scaler" not in probed.torch_state


@pytest.mark.parametrize(("unscale", "clips_scaled"), [(False, True), (True, False)])
def test_clipping_scaled_gradients_is_noticed(probed, model, scaler, unscale, clips_scaled):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        scaler.scale(model(torch.ones(2, 4)).sum()).backward()
        if unscale:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert probed.torch_state.get("clips_scaled", False) is clips_scaled


def test_clipping_without_a_scaler_is_right(probed, model):
    micro_step(model)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert "clips_scaled" not in probed.torch_state


def test_what_an_optimizer_is(probed, model):
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.5, foreach=False)
    (row,) = probed.described_optimizers()
    assert (row["type"], row["module"], row["num_params"]) == ("AdamW", "torch.optim.adamw", 5)
    assert row["arguments"] == {
        "foreach": False, "capturable": False, "amsgrad": False, "weight_decay": 0.5,
    }  # fmt: skip
    assert row["has_fused"] is True
    assert (row["site"]["file"], row["site"]["function"]) == (__file__, "test_what_an_optimizer_is")
    assert row["object"]() is optimizer


def test_a_torch_without_a_scaler_for_all_devices_has_that_of_cuda(attach, monkeypatch):
    monkeypatch.delattr(torch.amp, "GradScaler")
    attach()
    assert "step" in vars(torch.cuda.amp.GradScaler)


ZERO = """
class Zero:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.optimizer.step()  # makes the states

    def step(self):
        groups = self.optimizer.param_groups
        for group in groups:
            self.optimizer.param_groups = [group]
            self.optimizer.step()
        self.optimizer.param_groups = groups
"""


@pytest.mark.parametrize("with_scheduler", [False, True])
def test_deepspeed_steps_group_by_group_and_that_is_one_step(probed, model, kinds, with_scheduler):
    """As in its stage_1_and_2.py and stage3.py; its initialisation is none."""
    groups = [{"params": [model.weight]}, {"params": [model.bias], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer) if with_scheduler else None
    names = {}
    exec(compile(ZERO, "/lib/deepspeed/runtime/zero/stage_1_and_2.py", "exec"), names)
    zero = names["Zero"](optimizer)
    for _ in range(3):
        micro_step(model)
        micro_step(model)
        zero.step()
        if scheduler is not None:
            scheduler.step()
    assert steps(probed) == 3
    assert kinds().count("optimizer") == 7


def test_the_same_calls_of_another_are_steps(probed, model):
    """A script may step twice on one gradient."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    micro_step(model)
    optimizer.step()
    optimizer.step()
    assert steps(probed) == 2
