"""Garbage collections while files are read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.check.check import CheckOptions, check
from autotune.check.garbage_collection import RARE, rare_collections
from autotune.errors import UsageError


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before, is_on = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_threshold(*before)
    (gc.enable if is_on else gc.disable)()


@pytest.mark.parametrize("own", [(700, 10, 10), (RARE[0] + 1, 5, 5), (0, 10, 10)])
def test_the_thresholds_of_the_process_come_back(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    own = gc.get_threshold()  # as this Python keeps them
    with rare_collections():
        assert (gc.get_threshold()[0] == RARE[0]) is (own[0] == 700)
    assert gc.get_threshold() == own


def test_where_collection_is_off_nothing_changes() -> None:
    gc.set_threshold(700, 10, 10)
    gc.disable()
    with rare_collections():
        assert gc.get_threshold()[0] == 700
    assert not gc.isenabled()


def test_a_check_collects_rarely_and_leaves_what_was(tmp_path: Path) -> None:
    gc.set_threshold(700, 10, 10)
    own, seen = gc.get_threshold(), []
    (tmp_path / "train.py").write_text("import torch\nfor x in loader:\n    loss(x).backward()\n")
    check(CheckOptions((tmp_path,)), cwd=tmp_path, progress=lambda *_: seen.append(gc.get_threshold()[0]))
    assert set(seen) == {RARE[0]}
    assert gc.get_threshold() == own
    with pytest.raises(UsageError):
        check(CheckOptions((tmp_path / "none",)), cwd=tmp_path)
    assert gc.get_threshold() == own
