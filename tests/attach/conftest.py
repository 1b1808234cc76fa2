"""Real processes of small trainings, which are looked at from outside and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.machine import other_process

LOOP = Path(__file__).parents[2] / "fixtures" / "attach" / "loop.py"


@dataclass(frozen=True)
class Started:
    """A process, and the file that its standard error goes to."""

    process: subprocess.Popen
    log: Path

    @property
    def pid(self):
        return self.process.pid


@pytest.fixture
def start(tmp_path):
    """start(*words, before=(), python=...): a process that has said something on stderr; it is ended with the test.
    Without `python` the words are started by what is `before` them."""
    processes = []

    def begin(*words, before=(), python=sys.executable, **options):
        log = tmp_path / f"train-{len(processes)}.log"
        with log.open("wb") as file:
            words = [*before, *([python] if python else []), *map(str, words)]
            one = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=file, stdout=file, cwd=tmp_path, **options)
        processes.append(one)
        until = time.monotonic() + 60
        while not log.stat().st_size and one.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        assert one.poll() is None, log.read_text()
        return Started(one, log)

    yield begin
    for one in processes:
        for each in other_process.tree(one.pid):  # what it has started does not end with it
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
        one.wait()


@pytest.fixture
def training(start):
    """training(*words): the loop of fixtures/attach, after its first step."""
    return lambda *words, **options: start(LOOP, *words, **options)


@pytest.fixture
def script(tmp_path):
    """script(text): a file of Python without torch: it starts in a moment."""

    def write(text):
        path = tmp_path / "script.py"
        path.write_text(text)
        return path

    return write
