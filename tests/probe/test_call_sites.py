from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autotune.probe import call_sites

VENV_BIN = os.path.dirname(os.path.abspath(sys.executable))


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("/home/me/project/train.py", True),
        ("/home/me/site-packages-of-mine/train.py", True),
        ("/home/me/binary/train.py", True),
        ("/opt/env/lib/python3.11/site-packages/transformers/trainer.py", False),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", False),
        (os.path.join(VENV_BIN, "trl"), False),
        (json.__file__, False),
        (torch.__file__, False),
        (call_sites.__file__, False),
        ("<string>", False),
        ("<frozen importlib._bootstrap>", False),
        ("", False),
    ],
)
def test_what_is_the_users_own(filename, expected):
    assert call_sites.is_user(filename) is expected


def test_a_relative_name_is_the_users(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert call_sites.is_user("train_relative.py")


@pytest.fixture
def call_in():
    """call_in(path, call): what `call` gives when a function `g` in file `path` calls it on line 2."""

    def run(path, call):
        names = {"call": call}
        exec(compile("def g():\n    return call()\n", path, "exec"), names)
        return names["g"]()

    return run


LIBRARY = "/lib/python3/site-packages/torch/utils/data/dataloader.py"
USER = "/home/me/train.py"


def test_the_caller_is_the_innermost_frame_outside_the_probe(call_in):
    assert call_in(LIBRARY, call_sites.caller) == {"file": LIBRARY, "line": 2, "function": "g", "is_user": False}
    assert call_in(USER, call_sites.caller) == {"file": USER, "line": 2, "function": "g", "is_user": True}


def test_skipped_files_pass_the_call_to_their_caller(call_in):
    site = call_in(USER, lambda: call_in(LIBRARY, lambda: call_sites.caller(skip=("torch/utils/data", __file__))))
    assert (site["file"], site["is_user"]) == (USER, True)


def test_no_frame_is_left_when_all_are_skipped():
    assert call_sites.caller(skip=("",)) == {"file": "", "line": 0, "function": "", "is_user": False}


def test_the_users_frame_is_found_below_library_frames(call_in):
    site = call_in("/home/me/deep.py", lambda: call_in(LIBRARY, call_sites.user_caller))
    assert (site["file"], site["is_user"]) == (__file__, True)
    assert call_in("/home/me/deep.py", call_sites.user_caller)["file"] == "/home/me/deep.py"


def test_a_site_is_made_once_for_each_calling_line(monkeypatch):
    made = []
    monkeypatch.setattr(call_sites, "_site", lambda code, line: made.append(line) or {"line": line})
    monkeypatch.setattr(call_sites, "_sites", {})
    found = [call_sites.site_of_frame(sys._getframe()) for _ in range(3)]
    other = call_sites.site_of_frame(sys._getframe())
    assert found == [found[0]] * 3
    assert made == [found[0]["line"], other["line"]] == [found[0]["line"], found[0]["line"] + 1]


def test_functions_alike_in_two_files_are_two_sites(call_in):
    assert [call_in(path, call_sites.caller)["file"] for path in (USER, LIBRARY)] == [USER, LIBRARY]


def test_generated_code_keeps_its_name(call_in):
    assert call_in("<string>", call_sites.caller)["file"] == "<string>"


def test_a_relative_file_becomes_absolute(call_in):
    site = call_in("train.py", call_sites.caller)
    assert site["file"] == str(Path.cwd() / "train.py")


WALKS = """
import gc, threading, time
from autotune.probe import call_sites
trained, over, depths = threading.get_ident(), time.monotonic() + 1.5, set()

class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        time.sleep(0.0002)  # the other thread goes on

def walk():
    gc.set_threshold(1)
    while time.monotonic() < over:
        Cycle()
        depths.add(len(call_sites.stack_of(trained)))

def numbers(depth):
    for number in range(20):
        yield from numbers(depth - 1) if depth else (number,)

def deep(depth):
    return deep(depth - 1) if depth else sum(numbers(2))

walking = threading.Thread(target=walk)
walking.start()
while walking.is_alive():
    deep(30)
print(max(depths), gc.isenabled())
"""


def test_the_stack_of_a_running_thread_is_taken_whole_though_finalizers_let_it_go_on():
    ended = subprocess.run([sys.executable, "-c", WALKS], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    depth, is_enabled = ended.stdout.split()
    assert int(depth) >= 32, "<module>, 31 calls, generators"
    assert is_enabled == "True"


def test_a_thread_that_has_ended_has_no_stack():
    assert call_sites.stack_of(-1) == []
