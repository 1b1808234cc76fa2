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
    yield made
    made.restore()


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
