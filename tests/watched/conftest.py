"""Watched runs of small scripts, with windows that come early."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.collect.command import BOOT
from autotune.model.watched import WatchedRow
from autotune.watched.watched import watched

EARLY = {"at": [20, 2000], "least_steps": 8, "least_s": 0, "write_s": 0.2}


@dataclass(frozen=True)
class WatchedRun:
    """What a watched command printed, how it ended, and what it left."""

    out: str
    err: str
    code: int
    rows: tuple[WatchedRow, ...]

    @property
    def row(self) -> WatchedRow:
        (one,) = self.rows
        return one


@pytest.fixture
def environ(tmp_path):
    """environ(**settings): that of a user who types AUTOTUNE_WATCH=1 in a folder of their own."""

    def make(**settings):
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(tmp_path),
            "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"],
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(BOOT),
            "AUTOTUNE_WATCH": "1",
            "_AUTOTUNE_WATCH_TEST": json.dumps({**EARLY, **settings}),
        }

    return make


@pytest.fixture
def run(tmp_path, environ):
    """run(*words, variables={}, **settings): a command in tmp_path under watch, as a WatchedRun."""

    def make(*words, variables=None, **settings):
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=tmp_path,
            env={**environ(**settings), **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        has_state = (tmp_path / ".autotune" / "watch").is_dir()
        rows = watched(tmp_path, cwd=tmp_path).rows if has_state else ()
        return WatchedRun(done.stdout, done.stderr, done.returncode, rows)

    return make
