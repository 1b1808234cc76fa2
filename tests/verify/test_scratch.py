from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from autotune.collect import artefacts, stale_runs
from autotune.verify.scratch import mirrored, run_folder


@pytest.fixture
def root(tmp_path):
    (tmp_path / "train.py").write_text("before")
    return tmp_path


def runs(root):
    return list((root / ".autotune" / "runs").glob("*"))


def test_the_mirror_is_gone_afterwards_whatever_happens(root) -> None:
    with pytest.raises(KeyboardInterrupt), mirrored(root, frozenset([root / "train.py"])) as shown:
        assert [(one.place / "train.py").read_text() for one in shown.values()] == ["before"] * 2
        assert len({one.place for one in shown.values()}) == 2
        raise KeyboardInterrupt
    assert runs(root) == []
    assert (root / "train.py").read_text() == "before"


def test_no_file_that_differs_is_no_mirror(root) -> None:
    with mirrored(root, frozenset()) as shown:
        assert shown == {}
    assert not (root / ".autotune").exists()


def test_the_folder_of_a_start_is_gone_afterwards(root) -> None:
    with pytest.raises(ValueError, match="x"), run_folder(root) as folder:
        (folder / "recording-1.json").write_text("{}")
        raise ValueError("x")
    assert runs(root) == []


KILLED = """
import os, pathlib, signal, sys
from autotune.verify.scratch import mirrored
root = pathlib.Path(sys.argv[1])
with mirrored(root, frozenset([root / "train.py"])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_crash_leaves_is_deleted_by_the_next_measurement(root) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(root)], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = runs(root)
    mirrors = tuple(left / f"scratch-mirror-{number}" for number in range(2))
    assert all((mirror / root.relative_to("/") / "train.py").exists() for mirror in mirrors)
    assert "pid" in json.loads((left / artefacts.MANIFEST).read_text())
    assert stale_runs.remove_leftovers(root) == mirrors
    assert (root / "train.py").read_text() == "before"
