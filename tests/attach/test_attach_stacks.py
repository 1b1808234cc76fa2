"""Stacks by py-spy and by Python 3.15's sampler: what their outputs say, and which phase a stack is of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace
from test_attach_facts import ABOUT

from autotune.attach import stacks, target
from autotune.attach.stacks import Frame
from autotune.attach.target import Target

TORCH = "/venv/lib/python3.11/site-packages/torch"
MAIN = Frame("/home/me/train.py", 68, "main")
LOAD = Frame(f"{TORCH}/utils/data/dataloader.py", 700, "_BaseDataLoaderIter.__next__")
CALL = Frame(f"{TORCH}/nn/modules/module.py", 1784, "Module._call_impl")
BACK = Frame(f"{TORCH}/_tensor.py", 600, "Tensor.backward")
STEP = Frame(f"{TORCH}/optim/optimizer.py", 500, "Optimizer.profile_hook_step.<locals>.wrapper")
USER = Frame("/home/me/data.py", 12, "__getitem__")
SAVE = Frame(f"{TORCH}/serialization.py", 900, "save")
EVALUATE = Frame("/venv/lib/python3.11/site-packages/transformers/trainer.py", 4000, "Trainer.evaluate")


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        ((MAIN,), "other"),
        ((MAIN, LOAD, USER), "data_wait"),
        ((MAIN, LOAD, USER, CALL), "data_wait"),
        ((MAIN, CALL), "forward"),
        ((MAIN, CALL, USER), "forward"),
        ((MAIN, BACK), "backward"),
        ((MAIN, BACK, CALL), "recompute"),
        ((MAIN, STEP), "optimizer"),
        ((MAIN, SAVE), "checkpoint"),
        ((MAIN, EVALUATE, LOAD), "evaluation"),
        ((MAIN, Frame("/home/me/torch_module.py", 1, "_call_impl")), "other"),
    ],
)
def test_the_phase_of_a_stack(frames, phase):
    assert stacks.phase(frames) == phase


PY_SPY = """\
thread (7): MainThread;<module> (/home/me/train.py:80);main (/home/me/train.py:68) 30
thread (7): MainThread;main (/home/me/train.py:68);_X.__next__ (/v/site-packages/torch/utils/data/dataloader.py:9) 60
thread (7): MainThread;main (/home/me/with (a) space.py:3);f (<string>) 10
thread (0x9): pt_data_pin;run (/usr/lib/python3.11/threading.py:1) 100
process 7 9
"""


def test_what_py_spy_writes_is_read():
    found = stacks.of_py_spy(PY_SPY)
    assert found.keys() == {7, 9}
    assert found[7].total() == 100
    assert found[7][Frame("/home/me/with (a) space.py", 3, "main"), Frame("<string>", 0, "f")] == 10


FRAMES = """\
{"type":"string_table","v":0,"strings":[{"str_id":0,"value":"main"},{"str_id":1,"value":"/home/me/train.py"}]}
{"type":"frame_table","v":0,"frames":[{"frame_id":0,"path_str_id":1,"func_str_id":0,"line":68}]}
{"type":"new","v":1}
"""


def test_what_pythons_own_sampler_writes_is_read_with_whole_paths():
    files = stacks.files_of_frames(FRAMES)
    found = stacks.of_python("tid:7;train.py:main:68 5\ntid:7;train.py:main:68;module.py:f:2 1\n", files)
    assert found == {7: Counter({(MAIN,): 5, (MAIN, Frame("module.py", 2, "f")): 1})}


def test_the_thread_that_trains_is_told_by_its_phases():
    samples = {7: Counter({(MAIN,): 50}), 8: Counter({(MAIN, BACK): 5, (MAIN,): 5})}
    assert stacks.training_thread(samples, 7) is samples[8]
    assert stacks.training_thread({7: samples[7], 9: Counter({(USER,): 9})}, 7) is samples[7]
    assert stacks.training_thread({}, 7) == {}


def test_a_folder_of_the_project_is_not_taken_for_pythons_own_sampler(monkeypatch, tmp_path):
    """What it imports, and where: nothing of the folder that autotune is called in."""
    (tmp_path / "profiling").mkdir()
    (tmp_path / "profiling" / "__init__.py").write_text("raise SystemExit('of the project')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stacks.shutil, "which", lambda *given, **named: None)
    about = replace(ABOUT, python=(3, 15), uid=os.geteuid(), exe=os.path.realpath(sys.executable))
    _, words = stacks._program(Target(about, (), ()))
    with pytest.raises(ValueError, match="No module named") as raised:
        stacks._by_python(words, Target(about, (), ()), 1)
    assert "of the project" not in str(raised.value)
    for changes in ({"same_files": False}, {"exe": "/bin/sh"}, {"uid": os.geteuid() + 1}):
        assert stacks._program(Target(replace(about, **changes), (), ())) is None


SPIN = "import sys\n\ndef work():\n    return sum(range(1000))\n\nprint('go', flush=True)\nwhile True:\n    work()\n"


def test_without_a_program_it_is_said_what_to_install(start, script, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    found, tier = stacks.take(target.find(start(script(SPIN)).pid), 1.0)
    assert found is None
    assert (tier.state, tier.to_do) == ("refused", "Install it: pip install py-spy")


def program(folder, text, monkeypatch):
    """A py-spy of ours in PATH."""
    file = folder / "bin" / "py-spy"
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}:/usr/bin:/bin")


def test_a_program_that_fails_is_quoted(start, script, tmp_path, monkeypatch):
    program(tmp_path, "echo 'Error: no symbols' >&2; exit 1", monkeypatch)
    found, tier = stacks.take(target.find(start(script(SPIN)).pid), 1.0)
    assert found is None
    assert (tier.state, tier.said) == ("refused", "py-spy failed: Error: no symbols")


def test_what_a_program_says_is_summed_up(start, script, tmp_path, monkeypatch):
    one = start(script(SPIN))
    text = PY_SPY.replace("thread (7)", f"thread ({one.pid})").replace("/home/me", str(tmp_path))
    (tmp_path / "raw").write_text(text)
    program(tmp_path, f'for last; do :; done; cp {tmp_path}/raw "$last"', monkeypatch)
    found, tier = stacks.take(target.find(one.pid), 1.0)
    assert tier.said == "100 samples by py-spy"
    assert found.phases == {"data_wait": 0.6, "other": 0.4}
    assert [(line.file, line.line, line.phase, line.share) for line in found.lines][:2] == [
        ("train.py", 68, "data_wait", 0.6),
        ("train.py", 68, "other", 0.3),
    ]


@pytest.mark.skipif(shutil.which("py-spy") is None, reason="needs py-spy")
def test_the_real_one_names_the_line(start, script):
    one = start(script(SPIN))
    found, _ = stacks.take(target.find(one.pid), 1.0)
    assert found.samples >= 20
    assert (found.lines[0].file, found.lines[0].function) == ("script.py", "work")


NOBODY = 65534


def test_a_process_of_another_user_is_refused_with_the_way_round(start, script):
    """As nobody, of a process of ours."""
    if subprocess.run(["setpriv", f"--reuid={NOBODY}", "true"], check=False).returncode:
        pytest.skip("needs root, to be another user")
    one = start(script(SPIN))
    code = f"from autotune.attach import stacks, target; print(stacks.take(target.find({one.pid}), 1.0)[1])"
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable, "-c", code]
    said = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True).stdout
    assert "it belongs to another user" in said
    assert f"sudo env PATH=$PATH autotune diagnose --pid {one.pid}" in said
    assert "AUTOTUNE_WATCH=1" in said
