"""The hook of .pre-commit-hooks.yaml, run as pre-commit runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from consumers import read, run_hook

from autotune.scan.files import SYNTAXES


def test_a_commit_with_a_grave_finding_is_stopped(faulty: Path) -> None:
    ended = run_hook(faulty, ["train.py"], "--fail-on", "info")
    assert ended is not None
    assert ended.returncode == 1, ended.stderr
    assert "train.py:3" in ended.stdout


def test_a_healthy_commit_passes(healthy: Path) -> None:
    ended = run_hook(healthy, ["train.py"])
    assert ended is not None
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_commit_of_one_file_is_judged_with_its_neighbours(faulty: Path) -> None:
    """What the commit holds says nothing by itself: the version is in one file, the argument in another."""
    ended = run_hook(faulty, ["requirements.txt"], "--fail-on", "info")
    assert ended is not None
    assert "train.py:3" in ended.stdout


def test_a_commit_without_files_of_training_does_not_start_it(faulty: Path) -> None:
    assert run_hook(faulty, ["README.md", "logo.png"]) is None


@pytest.mark.parametrize("ending", SYNTAXES)
def test_every_file_that_is_read_starts_it(ending: str) -> None:
    (hook,) = read(".pre-commit-hooks.yaml")
    assert re.search(hook["files"], f"folder/file{ending}")
