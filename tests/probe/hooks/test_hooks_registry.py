"""Every hook of the registry, by itself: it attaches, and torch is as it was once the patches are restored."""

from __future__ import annotations

import pytest

from autotune.probe import hooks
from autotune.probe import session as sessions
from autotune.probe.patches import Patches

ABSENT = object()
OVERRIDE = {"at": "loader", "file": "train.py", "first_line": 1, "last_line": 1, "arguments": {"num_workers": 2}}


def name_of(hook):
    return hook.__name__.rpartition(".")[2]


class WatchedPatches(Patches):
    """Patches that know what each attribute was before the first of them."""

    def __init__(self):
        super().__init__()
        self.before = {}

    def set(self, owner, name, value):
        self.before.setdefault((owner, name), vars(owner).get(name, ABSENT))
        super().set(owner, name, value)

    def changed(self):
        return {key for key, old in self.before.items() if vars(key[0]).get(key[1], ABSENT) is not old}


@pytest.fixture
def session(request_json):
    """A session that patches nothing by itself."""
    made = sessions.ProbeSession({**request_json(), "overrides": [OVERRIDE]})
    made.patches = WatchedPatches()
    yield made
    made.patches.restore()


@pytest.mark.parametrize("hook", [*hooks.IN_WORKERS, *hooks.IN_TRAINING], ids=name_of)
def test_a_hook_attaches_and_leaves_torch_as_it_was(session, hook):
    hook.install(session)
    assert session.patches.changed() == set(session.patches.before) != set()
    session.patches.restore()
    assert session.patches.changed() == set()


@pytest.mark.parametrize("hook", hooks.AFTER_IMPORT, ids=name_of)
def test_a_module_that_no_hook_knows_is_left_alone(session, hook):
    hook.on_import(session, pytest)
    assert session.patches.before == {}


def test_a_worker_gets_the_hooks_of_workers_alone_in_their_order(request_json, monkeypatch):
    class Hook:
        def __init__(self, name):
            self.name = name

        def install(self, session):
            installed.append(self.name)

    installed = []
    for place in ("IN_WORKERS", "IN_TRAINING"):
        monkeypatch.setattr(sessions, place, (Hook(place + " 1"), Hook(place + " 2")))
    monkeypatch.setenv("AUTOTUNE_LOADER", "1:0")
    sessions.ProbeSession(request_json()).install()
    assert installed == ["IN_WORKERS 1", "IN_WORKERS 2"]
