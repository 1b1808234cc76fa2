"""A session that plans: the script's own loop, on tensors without memory, at the sizes that were asked for."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autotune.collect.request import FitPlan
from autotune.probe.fit import planned_steps
from autotune.probe.fit.fake_parameters import FakeParameters, is_fake


class Ended(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def planned(attach, monkeypatch):
    """planned(*sizes, lengths): a session for these; it ends by Ended."""
    from autotune.probe import ending

    def leave(session):
        session.ended = True
        session.recorder.on = False
        session.told = session.plan.row()
        raise Ended

    monkeypatch.setattr(ending, "leave", leave)

    def make(*sizes, lengths=()):
        return attach(fit=FitPlan("NVIDIA A100-SXM4-80GB", 80 * 2**30, (8, 0), sizes, lengths))

    return make


def train(batch_size=4, accumulate=1, steps=50):
    model = nn.Sequential(nn.Embedding(50, 64), nn.Linear(64, 50))
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(TensorDataset(torch.randint(0, 50, (400, 16))), batch_size=batch_size)
    for index, (ids,) in enumerate(loader):
        if index == steps:
            return
        nn.functional.cross_entropy(model(ids.cuda()).flatten(0, 1), ids.cuda().flatten()).backward()
        if index % accumulate == accumulate - 1:
            optimizer.step()
            optimizer.zero_grad()


def sizes(session):
    return [(row["samples"], row["length"], row["micro_batches"]) for row in session.plan.row()["steps"]]


def test_every_size_gets_a_step(planned):
    session = planned(80, 20)
    with pytest.raises(Ended):
        train(batch_size=40)
    assert sizes(session) == [(40, 16, 1), (80, 16, 1), (20, 16, 1)]
    peaks = [row["peaks"]["forward and backward"]["parts"]["rest"] for row in session.plan.rows]
    assert peaks[1] == pytest.approx(2 * peaks[0], rel=0.1)
    assert peaks[2] == pytest.approx(peaks[0] / 2, rel=0.1)


def test_without_a_wish_twice_the_own_size_is_tried(planned):
    session = planned()
    with pytest.raises(Ended):
        train()
    assert sizes(session) == [(4, 16, 1), (8, 16, 1)]


def test_other_lengths_are_tried_at_each_size(planned):
    session = planned(4, 8, lengths=(32,))
    with pytest.raises(Ended):
        train()
    assert sizes(session) == [(4, 16, 1), (8, 16, 1), (4, 32, 1), (8, 32, 1)]


def test_micro_batches_of_a_step_are_counted(planned):
    session = planned(8)
    with pytest.raises(Ended):
        train(accumulate=3)
    assert sizes(session) == [(4, 16, 3), (8, 16, 3)]


def test_the_parts_are_told_apart_once_the_state_is_there(planned):
    session = planned()
    with pytest.raises(Ended):
        train()
    parameters = 4 * (50 * 64 + 64 * 50 + 50)
    parts = session.plan.rows[0]["peaks"]["optimizer"]["parts"]
    assert (parts["weights"], parts["gradients"]) == (parameters, parameters)
    assert parts["optimizer"] == pytest.approx(2 * parameters, rel=0.01)
    assert session.told["outside_layers_bytes"] == 0
    assert session.told["largest_layer_bytes"] == 4 * (64 * 50 + 50)


def test_a_script_that_ends_early_leaves_the_steps_that_it_made(planned):
    session = planned(8)
    train(steps=2)
    assert sizes(session) == [(4, 16, 1)]
    assert session.plan.row()["began"]


def test_a_script_that_never_trains_has_not_begun(planned):
    session = planned()
    nn.Linear(2, 2).eval()(torch.zeros(1, 2))
    assert session.plan.row() == {
        "steps": [],
        "made_up": [],
        "breaks": [],
        "began": False,
        "compiles": False,
        "has_optimizer": False,
        "largest_layer_bytes": None,
        "outside_layers_bytes": None,
        "num_trained": 0,
        "trained_bytes": 0,
    }


class Coded(nn.Module):
    """Two lists of layers, as an encoder and a decoder have."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(10, 4), nn.Linear(4, 3)
        self.encoder = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.decoder = nn.ModuleList([nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)) for _ in range(2)])


def test_an_encoder_and_a_decoder_have_layers_of_their_own(planned):
    session = planned()
    model = Coded()
    model.head.requires_grad_(False)
    session.models[:] = [{"object": lambda: model}]
    told = session.plan.row()
    assert told["largest_layer_bytes"] == 4 * (4 * 8 + 8 + 8 * 4 + 4)
    assert told["outside_layers_bytes"] == 4 * (10 * 4 + 4 * 3 + 3)
    assert told["num_trained"] == sum(each.numel() for each in model.parameters()) - (4 * 3 + 3)
    assert told["trained_bytes"] == 4 * told["num_trained"]


def test_layers_that_share_weights_count_them_once(planned):
    session = planned()
    model = Coded()
    for layer in model.encoder:
        layer.weight = model.encoder[0].weight
    session.models[:] = [{"object": lambda: model}]
    assert session.plan.row()["outside_layers_bytes"] == 4 * (10 * 4 + 4 * 3 + 3)


@pytest.mark.parametrize(("asked", "others"), [("float16", "bfloat16"), ("bfloat16", "float16")])
def test_work_is_of_the_type_that_autocast_was_asked_for(planned, asked, others):
    session = planned()
    with pytest.raises(Ended), torch.autocast("cuda", dtype=getattr(torch, asked)):
        train()
    kinds = {kind for _, _, kind, _ in session.plan.rows[0]["work"]}
    assert asked in kinds and others not in kinds


def test_copies_of_weights_that_autocast_makes_are_told_apart(planned):
    session = planned()
    model = nn.Sequential(nn.Embedding(50, 64), nn.Linear(64, 50))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(Ended):
        for (ids,) in DataLoader(TensorDataset(torch.zeros(64, 16, dtype=torch.int64)), batch_size=4):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(ids).sum()
            loss.backward()
            optimizer.step()
    parts = session.plan.rows[0]["peaks"]["forward and backward"]["parts"]
    assert parts["casts"] == 2 * (64 * 50 + 50)  # of the linear layer; an embedding is not cast


def test_one_step_counts_the_state_that_it_made(planned):
    session = planned()
    train(steps=1)
    (row,) = session.plan.row()["steps"]
    assert not session.plan.rows
    parameters = 4 * (50 * 64 + 64 * 50 + 50)
    parts = row["peaks"]["forward and backward"]["parts"]
    assert parts["optimizer"] == pytest.approx(2 * parameters, rel=0.01)
    assert row["peaks"]["forward and backward"]["bytes"] == sum(parts.values())


def test_without_an_optimizer_each_backward_is_a_step(planned):
    session = planned()
    model = nn.Linear(64, 8)
    with pytest.raises(Ended):
        for batch in DataLoader(torch.rand(400, 64), batch_size=4):
            model(batch).sum().backward()
            for each in model.parameters():
                each.data.add_(each.grad, alpha=-0.1)
                each.grad = None
    assert sizes(session)[0] == (4, 64, 1) and not session.plan.row()["has_optimizer"]
    assert session.plan.rows[0]["peaks"]["forward and backward"]["parts"]["gradients"] == 0


def test_a_save_in_a_step_writes_nothing(planned, tmp_path):
    planned()
    model = nn.Linear(64, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(Ended):
        for batch in DataLoader(torch.rand(400, 64), batch_size=4):
            model(batch).sum().backward()
            optimizer.step()
            torch.save(model.state_dict(), tmp_path / "model.pt")
    assert not (tmp_path / "model.pt").exists()


def test_compiling_is_told(planned):
    session = planned()
    assert torch.compile(nn.Linear(2, 2)) and session.plan.row()["compiles"]


def test_the_inputs_of_a_loss_are_no_micro_batch(planned):
    session = planned()
    model, loss = nn.Linear(64, 8), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(Ended):
        for (batch,) in DataLoader(TensorDataset(torch.rand(400, 3, 64)), batch_size=4):
            loss(model(batch).flatten(0, 1), torch.zeros(3 * len(batch), dtype=torch.int64)).backward()
            optimizer.step()
    assert sizes(session)[0] == (4, None, 1)


def test_an_evaluation_between_steps_is_of_no_step(planned):
    session = planned(8)
    model = nn.Linear(64, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(Ended):
        for (batch,) in DataLoader(TensorDataset(torch.rand(400, 64)), batch_size=4):
            model(batch).sum().backward()
            optimizer.step()
            with torch.no_grad():
                model.eval()(torch.rand(3, 64))
            model.train()
    assert sizes(session) == [(4, 64, 1), (8, 64, 1)]


def test_what_a_loader_starts_between_two_fake_steps_is_real():
    parameters = FakeParameters()
    with parameters.mode:
        assert is_fake(torch.zeros(1))
        assert not is_fake(planned_steps._with_real_workers(lambda loader: torch.zeros(1))(None))
