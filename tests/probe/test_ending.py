from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autotune.probe import ending


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 8 GB)"), True),
        (RuntimeError("shape '[2]' is invalid for input of size 3"), False),
        (KeyError("memory"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_means_that_memory_ran_out(error, expected):
    assert ending.is_out_of_memory(error) is expected


@pytest.fixture
def exits(monkeypatch, tmp_path):
    codes = []
    monkeypatch.setenv("AUTOTUNE_REQUEST", str(tmp_path / "request.json"))
    monkeypatch.setattr(ending.os, "_exit", codes.append)
    return codes


def test_a_bug_of_ours_ends_the_process_and_says_whose_it_is(exits, capsys, tmp_path):
    ending.ours(lambda: {}["private text"])()
    assert exits == [ending.BUG]
    assert "internal error" in capsys.readouterr().err
    lines = (tmp_path / f"bug-{os.getpid()}").read_text().splitlines()
    assert [path.name for path in tmp_path.glob("*bug*")] == [f"bug-{os.getpid()}"]
    assert lines[0] == "KeyError"
    assert lines[-1].startswith(f"  {__file__}:")
    assert lines[-1].endswith(" <lambda>")
    assert len(lines) == 3


def test_what_a_signal_raises_while_the_probe_runs_is_no_bug_of_ours(exits):
    """torch's handler of SIGCHLD raises where a worker of a DataLoader was killed."""

    def handler(number, frame):
        raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed.")

    class Handler:
        def __call__(self, number, frame):
            handler(number, frame)

    for each in (handler, functools.partial(handler), Handler()):
        before = signal.signal(signal.SIGUSR1, each)
        try:
            with pytest.raises(RuntimeError, match="is killed by signal"):
                ending.ours(lambda: signal.raise_signal(signal.SIGUSR1))()
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert exits == []


def test_a_process_ends_although_its_note_cannot_be_written(exits, monkeypatch, tmp_path):
    monkeypatch.setenv("AUTOTUNE_REQUEST", str(tmp_path / "gone" / "request.json"))
    with pytest.raises(FileNotFoundError):
        ending.ours(lambda: 1 / 0)()
    assert exits == [ending.BUG]


@pytest.mark.train
def test_a_probe_that_cannot_start_leaves_a_note(tmp_path):
    request = tmp_path / "request.json"
    request.write_text("{nonsense")
    environ = {"PYTHONPATH": str(Path(ending.__file__).parent / "boot"), "AUTOTUNE_REQUEST": str(request)}
    done = subprocess.run([sys.executable, "-c", "print(1)"], env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (ending.BUG, "")
    (note,) = tmp_path.glob("bug-*")
    assert note.read_text().splitlines()[0] == "ValueError"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_process_passes_through(exits, error):
    @ending.ours
    def end():
        raise error

    with pytest.raises(error):
        end()
    assert exits == []


def test_a_good_call_gives_its_result(exits):
    assert ending.ours(lambda number: 2 * number)(4) == 8
    assert exits == []


def test_a_goodbye_says_how_many_will_follow(probed, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    ending.say_goodbye(probed)
    assert [path.name for path in tmp_path.glob("le*")] == [f"left-{probed.recorder.pid}"]
    assert (tmp_path / f"left-{probed.recorder.pid}").read_text() == "4"
