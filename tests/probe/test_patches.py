from __future__ import annotations

import pytest

from autotune.probe.patches import Patches


class Base:
    def method(self):
        return "base"


class Below(Base):
    pass


@pytest.fixture
def patches():
    made = Patches()
    native = vars(Base)["method"]
    yield made
    made.restore()
    Base.method = native  # what somebody else replaced is theirs, and stays


def test_an_own_attribute_is_the_same_object_again(patches):
    native = vars(Base)["method"]
    patches.set(Base, "method", lambda self: "patched")
    assert Below().method() == "patched"
    patches.restore()
    assert vars(Base)["method"] is native


def test_an_inherited_attribute_is_deleted_again(patches):
    patches.set(Below, "method", lambda self: "patched")
    assert (Base().method(), Below().method()) == ("base", "patched")
    patches.restore()
    assert "method" not in vars(Below)
    assert Below().method() == "base"


def test_double_patches_unwind_backwards_with_undos_between(patches):
    order = []
    native = vars(Base)["method"]
    patches.set(Base, "method", 1)
    patches.on_restore(lambda: order.append(vars(Base)["method"]))
    patches.set(Base, "method", 2)
    patches.on_restore(lambda: order.append(vars(Base)["method"]))
    patches.restore()
    assert order == [2, 1]
    assert vars(Base)["method"] is native
    patches.restore()
    assert order == [2, 1]


def test_what_is_suspended_is_as_it_was_and_resumes_as_the_same_objects(patches):
    native = vars(Base)["method"]
    patches.set(Base, "method", lambda self: "first")
    patches.set(Base, "method", lambda self: "second")
    patches.set(Below, "method", lambda self: "below")
    ours = vars(Base)["method"], vars(Below)["method"]
    for _ in range(2):
        patches.suspend()
        assert vars(Base)["method"] is native
        assert "method" not in vars(Below)
        patches.resume()
        assert (vars(Base)["method"], vars(Below)["method"]) == ours
    patches.restore()
    assert vars(Base)["method"] is native
    assert "method" not in vars(Below)


def test_what_is_no_attribute_is_undone_after_a_suspension_too(patches):
    undone = []
    patches.set(Base, "method", 1)
    patches.on_restore(lambda: undone.append("once"))
    for _ in range(2):
        patches.suspend()
        patches.resume()
    assert undone == []
    patches.restore()
    assert undone == ["once"]


def test_what_somebody_else_replaced_meanwhile_stays_theirs(patches, monkeypatch):
    patches.set(Base, "method", lambda self: "ours")
    theirs = lambda self: "theirs"  # noqa: E731
    monkeypatch.setattr(Base, "method", theirs)
    patches.suspend()
    assert vars(Base)["method"] is theirs
    patches.resume()
    assert vars(Base)["method"] is theirs


def test_what_somebody_else_replaced_while_it_was_suspended_stays_theirs(patches, monkeypatch):
    patches.set(Base, "method", lambda self: "ours")
    patches.suspend()
    theirs = lambda self: "theirs"  # noqa: E731
    monkeypatch.setattr(Base, "method", theirs)
    patches.resume()
    patches.suspend()
    assert vars(Base)["method"] is theirs
