"""What a script changed, as its scratch says."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.collect import scratch_changes
from autotune.collect.scratch_changes import FileChange
from autotune.probe.overlay.layer import Layer


@pytest.fixture
def real(tmp_path):
    """A project of real files."""
    for name in ("old.pt", "log.txt", "steps/1.pt"):
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("real")
    return tmp_path / "project"


@pytest.fixture
def layer(tmp_path):
    return Layer(str(tmp_path / "scratch"))


def write(layer, path, text):
    Path(layer.upper + str(path)).write_text(text)


def test_the_scratch_of_the_hooks_tells_what_was_written_and_deleted(real, layer):
    layer.mirror(str(real))
    write(layer, real / "log.txt", "more")
    layer.hide(str(real / "old.pt"))
    layer.hide(str(real / "steps"))
    layer.mirror(str(real / "empty"))
    assert scratch_changes.of_hooks([Path(layer.folder)]) == (
        FileChange(str(real), "delete", 0),
        FileChange(str(real / "empty"), "mkdir"),
        FileChange(str(real / "log.txt"), "write", 4),
    )


def test_what_was_deleted_and_written_anew_is_a_write(real, layer):
    layer.hide(str(real / "old.pt"))
    write(layer, real / "old.pt", "new")
    assert scratch_changes.of_hooks([Path(layer.folder)]) == (FileChange(str(real / "old.pt"), "write", 3),)


def test_scratch_that_was_never_made_holds_nothing(tmp_path):
    assert scratch_changes.of_hooks([tmp_path / "missing"]) == ()
