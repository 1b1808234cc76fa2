"""Sessions on the test process's own torch: attached, driven by tiny loops, and detached again."""

from __future__ import annotations

import atexit

import pytest
import torch

from autotune.collect import request as requests
from autotune.probe import ending, session
from autotune.probe.what_ifs import schedule


class Left(BaseException):
    """Stands for the end of the process: nothing of the probe may come after it."""


@pytest.fixture
def request_json(tmp_path):
    """request_json(**fields of collect.Request): the JSON of a Request without isolation, as the probe reads it."""

    def make(**fields):
        return requests.as_json(requests.Request(**fields), tmp_path, None)

    return make


@pytest.fixture
def attach(request_json, monkeypatch):
    """attach(**fields of collect.Request): a ProbeSession on this torch; an endless window unless `steps` says else.

    The process cannot leave: `ending.leave` raises Left instead, after it wrote what it writes.
    """
    made = []

    def leave(one):
        one.ended = True
        one.recorder.on = False
        one.plan.is_active = False
        raise Left

    def stop_at_once(code):
        raise AssertionError(f"a bug of the probe: it ended the process with {code}")

    monkeypatch.setattr(ending, "leave", leave)
    # The phases that look at lines have tests of their own: they take seconds.
    monkeypatch.setattr(schedule, "LOOKS", (("profile", {}),))
    monkeypatch.setattr(ending.os, "_exit", stop_at_once)

    def make(**fields):
        _forget_hooked_steps(torch.optim.Optimizer)
        one = session.ProbeSession(request_json(**{"steps": 10**6, "warmup": 1, **fields}))
        made.append(one)
        one.install()
        return one

    yield make
    for one in made:
        one.detach()
        one.ended = True
        atexit.unregister(one._at_exit)
    _forget_hooked_steps(torch.optim.Optimizer)


@pytest.fixture
def probed(attach):
    """A Session with an endless window."""
    return attach()


@pytest.fixture
def kinds(probed):
    """kinds(*only): the kinds of the events so far, in the order in which they ended."""

    def of(*only):
        return [event[0] for event in probed.recorder.events if not only or event[0] in only]

    return of


@pytest.fixture
def left():
    """The exception that stands for the end of the process."""
    return Left


def _forget_hooked_steps(kind):
    """torch wraps the step of a class once, at its first instance; a fresh process has wrapped none."""
    for below in kind.__subclasses__():
        step = vars(below).get("step")
        if getattr(step, "hooked", False):
            below.step = step.__wrapped__
        _forget_hooked_steps(below)
