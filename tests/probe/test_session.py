from __future__ import annotations

import gc
import inspect
import json
import logging
import os
import time

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset, dataloader
from torch.utils.data._utils import fetch

from autotune.probe import ending
from autotune.probe import session as sessions

PATCHED = {
    "Module": torch.nn.Module,
    "autograd": torch.autograd,
    "nn.utils": torch.nn.utils,
    "Optimizer": torch.optim.Optimizer,
    "GradScaler": torch.amp.grad_scaler.GradScaler,
    "DataLoader": DataLoader,
    "iterator": dataloader._BaseDataLoaderIter,
    "map fetcher": fetch._MapDatasetFetcher,
    "iterable fetcher": fetch._IterableDatasetFetcher,
    "torch": torch,
    "cuda": torch.cuda,
    "cuda autocast": torch.cuda.amp.autocast,
    "cuda GradScaler": torch.cuda.amp.GradScaler,
    "gc": gc,
    "Logger": logging.Logger,
    "Tensor": torch.Tensor,
}


def attributes():
    return {name: dict(vars(owner)) for name, owner in PATCHED.items()}


def steps_of_optimizers(kind=torch.optim.Optimizer):
    own = {below: vars(below)["step"] for below in kind.__subclasses__() if "step" in vars(below)}
    for below in kind.__subclasses__():
        own.update(steps_of_optimizers(below))
    return own


def train(steps):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters())
    for (x,) in DataLoader(TensorDataset(torch.ones(steps, 2))):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def differing(before, after):
    """Names whose object is another one, by owner."""
    return {
        (owner, name)
        for owner, values in before.items()
        for name in {*values, *after[owner]}
        if values.get(name) is not after[owner].get(name)
    }


def test_detaching_leaves_torch_as_it_was(attach):
    train(1)  # torch imports parts of itself in a first step, and wraps the step of a class at its first instance
    before, steps = attributes(), steps_of_optimizers()
    session = attach()
    train(3)
    patched = differing(before, attributes())
    reads_wait = torch.version.cuda or torch.version.hip
    assert {owner for owner, _ in patched} == set(PATCHED) - (set() if reads_wait else {"Tensor"})
    session.detach()
    assert differing(before, attributes()) == set()
    after = steps_of_optimizers()
    assert set(after) == set(steps)
    assert [kind for kind in steps if inspect.unwrap(after[kind]) is not inspect.unwrap(steps[kind])] == []
    assert [kind for kind in steps if hasattr(after[kind], "_autotune_native")] == []
    mine, native = after[torch.optim.SGD], steps[torch.optim.SGD]
    assert (mine.__wrapped__, mine.__code__, mine.hooked) == (native.__wrapped__, native.__code__, True)


def test_what_was_made_while_attached_works_on_without_being_recorded(attach):
    session = attach()
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
    iterator = iter(DataLoader(TensorDataset(torch.ones(4, 2))))
    session.detach()
    events = len(session.recorder.events)
    before = model.weight.detach().clone()
    for (x,) in iterator:
        model(x).sum().backward()
        optimizer.step()
        scheduler.step()
    assert not torch.equal(model.weight, before)
    assert len(session.recorder.events) == events


def test_the_sampler_is_gone_after_detaching(attach):
    session = attach()
    thread = session.sampler._thread
    assert thread.is_alive()
    session.detach()
    assert not thread.is_alive()


def test_a_probed_loop_computes_what_a_native_one_does(attach):
    def losses():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        data = TensorDataset(torch.randn(64, 4))
        values = []
        for (x,) in DataLoader(data, batch_size=8, shuffle=True):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            values.append(loss.item().hex())
        return values

    native = losses()
    attach()
    assert losses() == native
    assert len(set(native)) == 8


def test_keep_going_takes_every_hook_off_and_lets_training_finish(attach, tmp_path):
    train(1)
    before = attributes()
    session = attach(steps=3, warmup=2, keep_going=True)
    train(20)
    assert differing(before, attributes()) == set()
    row = json.loads((tmp_path / f"recording-{os.getpid()}.json").read_text())
    assert (row["outcome"], row["window"]["steps"], row["window"]["ended_by"]) == ("completed", 3, "steps")
    assert row["what_ifs"] == []
    assert len(session.window.step_ends) == 5


@pytest.mark.parametrize(
    ("made", "outcome", "steps"),
    [(0, None, None), (1, "ended_early", None), (6, "ended_early", 5)],
)
def test_a_script_that_ends_early_is_written_down_at_exit(attach, tmp_path, made, outcome, steps):
    session = attach(warmup=1)
    if made:
        train(made)
    session._at_exit()
    files = list(tmp_path.glob("recording-*"))
    if outcome is None:
        assert files == [], "a process that trained nothing writes nothing"
        return
    row = json.loads(files[0].read_text())
    assert row["outcome"] == outcome
    assert (row["window"] and row["window"]["steps"]) == steps


def test_a_model_without_steps_is_said_to_have_none(attach, tmp_path):
    session = attach()
    torch.nn.Linear(1, 1)(torch.ones(1, 1))
    session._at_exit()
    (file,) = tmp_path.glob("recording-*")
    assert json.loads(file.read_text())["outcome"] == "no_step"


def test_the_time_limit_is_kept_while_the_training_thread_is_busy(attach, monkeypatch):
    late = []
    monkeypatch.setattr(ending, "leave", lambda session: late.append(session.window.ended_by))
    session = attach(time_limit_s=0.05)
    train(2)
    deadline = time.monotonic() + 20
    while not late and time.monotonic() < deadline:
        time.sleep(0.01)
    assert late[0] == "time_limit"
    assert session.window.summary(0)["steps"] == 1


def test_the_time_limit_counts_from_the_first_step(attach, monkeypatch):
    late = []
    monkeypatch.setattr(ending, "leave", late.append)
    session = attach(time_limit_s=0.0)
    session.sampler._check_limits()
    assert late == []


def test_the_wait_share_is_of_the_window(probed):
    probed.window.start, probed.window.end = 1000, 2000
    probed.recorder.events += [("fetch", 500, 900, 0, 1), ("fetch", 1000, 1200, 0, 1), ("fetch", 1500, 1550, 0, 1)]
    assert probed.wait_share() == pytest.approx(0.25)


def test_the_live_status_says_where_a_script_is(probed, tmp_path):
    train(2)
    probed.sampler._progress(None)
    row = json.loads((tmp_path / f"status-{os.getpid()}").read_text())
    assert (row["steps"], row["warmup"], row["over"], row["plan"]) == (2, 1, False, "")


def test_one_session_per_process_begins_at_torch(request_json, monkeypatch):
    made = []
    monkeypatch.setattr(sessions, "_sessions", [])
    monkeypatch.setattr(sessions.ProbeSession, "install", lambda session: made.append(session))
    sessions.begin(request_json(), None)
    assert made == sessions._sessions
    assert len(made) == 1
