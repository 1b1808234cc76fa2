"""The window of a process that was not started under watch: what its thread does at its limit."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from autotune.probe import ending
from autotune.probe.watch import remote
from autotune.probe.watch.settings import WatchSettings
from autotune.probe.watch.watched_session import WatchedSession


@pytest.fixture
def torch():
    """torch, and what the probe does about its own mistakes as it was."""
    told = list(ending._told)
    yield pytest.importorskip("torch")
    ending._told[:] = told


def hooks(torch):
    """Those that every optimizer has, and the methods that a window replaces."""
    module = sys.modules["torch.optim.optimizer"]
    every = len(module._global_optimizer_post_hooks), len(module._global_optimizer_pre_hooks)
    return every, torch.nn.Module.__call__, torch.Tensor.backward


def test_no_hook_is_put_on_after_the_deadline_or_while_an_optimizer_steps(monkeypatch):
    acted = []
    assert remote.at_quiet_moment(lambda: acted.append(1), time.monotonic()) is False
    monkeypatch.setattr(remote, "_is_in_loop", lambda frame: True)
    began = time.monotonic()
    assert remote.at_quiet_moment(lambda: acted.append(1), began + 0.2) is False
    assert time.monotonic() - began < 2.0
    assert acted == []


def test_a_window_that_is_being_opened_at_the_limit_is_taken_off(torch, tmp_path, monkeypatch):
    """The thread that ends it waits for the training thread, and finds the session attached."""
    before = hooks(torch)
    opening, original = threading.Event(), WatchedSession.attach
    sessions = []

    def slowly(session, steps, step_s):
        sessions.append(session)
        opening.set()
        time.sleep(0.3)
        original(session, steps, step_s)

    monkeypatch.setattr(WatchedSession, "attach", slowly)
    watch = remote.WindowWatch(WatchSettings(at=(2,), prints=False, folder=str(tmp_path / "run")))
    assert watch.begin(time.monotonic() + 10)
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def train():
        for _ in range(4):
            weight.grad = torch.ones(2)
            optimizer.step()

    thread = threading.Thread(target=train)
    thread.start()
    assert opening.wait(30)
    watch.stop()
    thread.join()
    assert watch.failure is None
    assert len(sessions) == 1
    assert not sessions[0].recorder.on
    assert not sessions[0].sampler._thread.is_alive()
    assert hooks(torch) == before


def test_a_hook_that_cannot_be_taken_off_does_nothing(torch, tmp_path, monkeypatch):
    watch = remote.WindowWatch(WatchSettings(at=(2,), prints=False, folder=str(tmp_path / "run")))
    assert watch.begin(time.monotonic() + 10)
    with monkeypatch.context() as patched:
        patched.setattr(remote, "REMOVAL_S", 0.05)
        patched.setattr(remote, "_is_in_loop", lambda frame: True)
        watch.stop()
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.ones(2)
    torch.optim.SGD([weight], lr=0.1).step()
    assert watch.clock.steps == 0
    watch.clock.stop()
