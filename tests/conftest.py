"""Measurements of small scripts, as `autotune diagnose` makes them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from autotune import collect
from autotune.collect import artefacts
from autotune.verify import scratch

# The suite tries the same examples twice, on machines of any speed. For others: --hypothesis-profile=fuzz.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def _signals_are_heard():
    """A shell starts what runs in its background deaf to SIGINT, nohup to SIGHUP, and every child inherits that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """No test reads or writes the user's cache, or what autotune knows of the user's projects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def few_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror links what lies beside the project: folders of hundreds of other tests, which nothing needs here."""
    monkeypatch.setattr(scratch, "MOST_BESIDE", 10)


@dataclass(frozen=True)
class Measured:
    """A measurement: what came back, and what the script printed."""

    collected: collect.Collected
    out: str

    @property
    def recording(self):
        """The only Recording."""
        (one,) = self.collected.recordings
        return one


@dataclass(frozen=True)
class Place:
    """A working folder of a user, with `environ` as their shell has it."""

    cwd: Path
    environ: Mapping[str, str]

    def write(self, name: str, text: str) -> Path:
        """Write a file of the user's."""
        path = self.cwd / name
        path.write_text(textwrap.dedent(text))
        return path

    def measure(self, *words: str, environ: Mapping[str, str] | None = None, **fields) -> Measured:
        """Measure the command `words`; `fields` are of collect.Request, with a short window by default."""
        run = artefacts.new_run(self.cwd)
        request = collect.Request(**{"steps": 6, "warmup": 2, "what_ifs": False, **fields})
        command = collect.plan_command(words, sys.executable, self.cwd, self.environ)
        with (run / "stdout").open("w+b") as out:
            collected = collect.collect(
                request,
                command,
                run,
                cwd=self.cwd,
                environ={**self.environ, **(environ or {})},
                show=lambda status: None,
                stdout=out.fileno(),
            )
        return Measured(collected, (run / "stdout").read_text())

    def natively(self, *words: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start `words` without the probe."""
        return subprocess.Popen(
            words,
            cwd=self.cwd,
            env={**self.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="session")
def place_in():
    """place_in(folder): a Place there. `python` is the one that runs the tests; one thread, so that sums are exact."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

    def make(folder: Path) -> Place:
        folder.mkdir(parents=True, exist_ok=True)
        environ = {
            "PATH": path,
            "HOME": str(folder),
            "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"],
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        return Place(folder, environ)

    return make


@pytest.fixture
def place(place_in, tmp_path):
    """A Place of this test alone."""
    return place_in(tmp_path / "project")
