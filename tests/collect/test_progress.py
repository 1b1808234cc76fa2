from __future__ import annotations

import json

import pytest

from autotune.collect.progress import Status, read

ROW = {"steps": 0, "warmup": None, "over": False, "plan": "", "file": "/p/train.py", "line": 7, "function": "main"}


@pytest.fixture
def say(tmp_path):
    """say(pid, **fields): what process `pid` wrote."""

    def write(pid, **fields):
        (tmp_path / f"status-{pid}").write_text(json.dumps({**ROW, **fields}))

    return write


def test_before_any_process_says_something(tmp_path):
    assert read(tmp_path, 3.0) == Status(3.0, 0, "starting", "")


@pytest.mark.parametrize(
    ("fields", "steps", "phase"),
    [
        ({}, 0, "starting"),
        ({"steps": 2}, 2, "warm-up"),
        ({"steps": 9, "warmup": 3}, 9, "measuring"),
        ({"steps": 9, "warmup": 3, "over": True, "plan": "replay"}, 9, "what-if"),
    ],
)
def test_the_phase(tmp_path, say, fields, steps, phase):
    say(1, **fields)
    assert read(tmp_path, 1.0) == Status(1.0, steps, phase, "/p/train.py:7 main")


def test_a_process_without_a_frame_is_nowhere(tmp_path, say):
    say(1, file="")
    assert read(tmp_path, 1.0).where == ""


def test_the_process_that_got_furthest_counts(tmp_path, say):
    say(1, steps=0, function="launcher")
    say(2, steps=5, warmup=3, function="rank0")
    say(3, steps=4, warmup=3, function="rank1")
    assert read(tmp_path, 1.0) == Status(1.0, 5, "measuring", "/p/train.py:7 rank0")


@pytest.mark.parametrize("text", ["", "{", "[1]", "\ufffd"])
def test_a_file_that_is_being_replaced_is_passed_over(tmp_path, say, text):
    say(1, steps=4)
    (tmp_path / "status-2").write_text(text)
    assert read(tmp_path, 1.0).steps == 4
