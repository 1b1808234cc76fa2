"""A window in a process that was not started under watch. The interpreter of these tests is older than 3.14: the script
stands in for PEP 768, and runs the file that autotune has for it, in its main thread between two steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from test_attach_facts import ABOUT
from watched_builders import process

from autotune.attach import remote_window, target
from autotune.attach.remote_window import Asked
from autotune.attach.target import Target
from autotune.machine import other_process

SCRIPT = textwrap.dedent(
    """
    import os, sys, time
    import torch
    from torch import nn
    from torch.optim import optimizer as module
    from torch.utils.data import DataLoader

    begin, steps, folder, pause_s = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    in_step = sys.argv[5] == "in_step"

    def state():
        hooks = module._global_optimizer_post_hooks, module._global_optimizer_pre_hooks
        names = nn.Module.__call__, torch.Tensor.backward, torch.Tensor.to, DataLoader.__iter__, nn.Module._call_impl
        return [len(each) for each in hooks], [id(each) for each in names], dict(os.environ)

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader, losses, made, before = DataLoader(torch.randn(4 * steps, 8), batch_size=4), [], 0, state()
    for batch in loader:
        loss = model(batch).square().mean()
        loss.backward()
        if in_step:
            optimizer.step(lambda: time.sleep(pause_s if made >= 5 else 0.0))
        else:
            time.sleep(pause_s)
            optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        made += 1
        if made == 5 and begin != "-":
            began = open("/proc/self/stat").read().rpartition(")")[2].split()[19]  # of this process, not of the tests'
            text = open(begin).read().replace("-1.5)", began + ")")
            exec(compile(text, begin, "exec"), {})
        if made > 6 and os.path.exists(folder + "/over"):
            break
    time.sleep(0.1)
    print(state() == before, made, ["%.9f" % each for each in losses[:30]])
    """
)


@pytest.fixture(autouse=True)
def _own_temporary_files(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """trained(begin, folder, steps=2000): the script as a process, with minutes until it has imported torch."""
    monkeypatch.setattr(remote_window, "REACH_S", 200.0)
    (tmp_path / "train.py").write_text(SCRIPT)
    started = []

    def run(begin, folder, steps=2000, pause_s=0.01, where=""):
        words = [sys.executable, "train.py", begin, str(steps), str(folder), str(pause_s), where]
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(words, cwd=tmp_path, text=True, env=environ, **pipes))
        return started[-1]

    yield run
    for one in started:
        with one:
            one.kill()


OURS = Target(other_process.about(os.getpid()), (), ())
"""A process that does not end."""


def asked(folder, limit_s=60.0):
    return Asked(folder, limit_s)


def begun(where):
    """The file that a process is to run for a window; it puts in when it has begun itself."""
    return remote_window._begin_file(a_target(start_ticks=-1.5), where)


def a_target(**changes):
    return Target(replace(ABOUT, **{"uid": os.geteuid(), "pid": os.getpid()} | changes), (), ())


@pytest.mark.train
def test_a_window_is_measured_and_everything_is_off_again(trained, tmp_path):
    where = asked(tmp_path / ".autotune" / "watch" / "attach-x")
    child = trained(str(begun(where)), where.folder)
    said = remote_window._answer(where, OURS)
    (where.folder / "over").touch()
    out, err = child.communicate(timeout=200)
    assert said == ""
    found = remote_window._window(where.folder)
    assert found.window.steps >= 20
    assert found.window.phases_ms["other"] == pytest.approx(10, abs=60)
    assert {"forward", "backward", "optimizer"} <= found.window.phases_ms.keys()
    assert (err, child.returncode) == ("", 0)
    is_as_before, made, losses = out.split(" ", 2)
    assert is_as_before == "True"
    alone = trained("-", tmp_path, steps=int(made)).communicate(timeout=200)[0]
    assert alone.split(" ", 2)[2] == losses


@pytest.mark.train
def test_steps_that_are_too_few_until_the_time_is_up_make_no_window_and_leave_nothing(trained, tmp_path):
    where = asked(tmp_path / ".autotune" / "watch" / "attach-x", limit_s=0.7)
    child = trained(str(begun(where)), where.folder, pause_s=0.5)
    said = remote_window._answer(where, OURS)
    (where.folder / "over").touch()
    out, err = child.communicate(timeout=200)
    assert "steps in 1 s are too few" in said or "made a step in 1 s" in said
    assert (err, child.returncode) == ("", 0)
    assert out.startswith("True ")


@pytest.mark.train
def test_a_training_that_is_always_in_its_optimizers_step_is_refused_within_the_limit(trained, tmp_path):
    """As with step(closure): no hook can be added there."""
    where = asked(tmp_path / ".autotune" / "watch" / "attach-x", limit_s=0.5)
    child = trained(str(begun(where)), where.folder, pause_s=8.0, where="in_step", steps=7)
    began = time.monotonic()
    while not (where.folder / remote_window.ANSWER).exists() and time.monotonic() - began < 200:
        time.sleep(0.05)
    began = time.monotonic()
    said = remote_window._answer(where, OURS)
    assert time.monotonic() - began < 0.5 + 5.0 + 5.0
    assert said == "its optimizer was in a step for 0 s: no hook can be added in one"
    (where.folder / "over").touch()
    out, err = child.communicate(timeout=200)
    assert (err, child.returncode) == ("", 0)
    assert out.startswith("True ")


def test_the_probe_is_loaded_without_a_file_written_beside_it(tmp_path):
    package = tmp_path / "probe"
    package.mkdir()
    (package / "__init__.py").write_text(
        "def import_window():\n    from . import other\n\ndef measure_window(asked):\n    asked.append(1)\n"
    )
    (package / "other.py").touch()
    names = {"__name__": "_autotune_load"}
    exec(Path(remote_window.PROBE / "load.py").read_text(), names)
    names["_NAME"] = "_a_probe_of_this_test"
    asked_for, before = [], sys.dont_write_bytecode
    sys.dont_write_bytecode = False
    try:
        names["attach"](str(package), asked_for)
        assert sys.dont_write_bytecode is False
    finally:
        sys.dont_write_bytecode = before
        sys.modules.pop(names["_NAME"], None)
        sys.modules.pop(f"{names['_NAME']}.other", None)
    assert asked_for == [1]
    assert not list(package.rglob("*.pyc"))


@pytest.mark.train
def test_a_folder_that_cannot_be_written_costs_the_training_nothing(trained, tmp_path):
    (tmp_path / "file").touch()
    where = asked(tmp_path / "file" / "attach-x")
    out, err = trained(str(begun(where)), tmp_path, steps=40).communicate(timeout=200)
    assert (out.split(" ")[:2], err) == (["True", "40"], "")


@pytest.mark.parametrize("changes", [{"phases_ms": {}}, {"step_ms": 0.0}, {"steps": "many"}])
def test_a_window_that_makes_no_sense_is_none(tmp_path, changes):
    """The process may be another user's: what it left may be anything."""
    row = msgspec.to_builtins(process())
    row["windows"] = [row["windows"][0] | changes]
    (tmp_path / "state-h-7.json").write_text(json.dumps(row))
    assert remote_window._window(tmp_path) is None
    (tmp_path / "state-h-8.json").write_text(json.dumps(msgspec.to_builtins(process())))
    assert remote_window._window(tmp_path).window.steps == 20


def test_a_process_that_ends_meanwhile_is_not_waited_for(tmp_path):
    gone = Target(replace(OURS.about, start_ticks=1), (), ())
    assert remote_window._answer(asked(tmp_path), gone) == "the process ended meanwhile"


@pytest.mark.parametrize(("reach_s", "later"), [(-1.0, 0), (20.0, 1)], ids=["too late", "another process"])
def test_a_file_that_is_read_too_late_or_by_another_process_does_nothing(tmp_path, monkeypatch, reach_s, later):
    monkeypatch.setattr(remote_window, "REACH_S", reach_s)
    started = []
    monkeypatch.setattr("_thread.start_new_thread", lambda *given: started.append(given))
    file = remote_window._begin_file(a_target(start_ticks=OURS.about.start_ticks + later), asked(tmp_path / "x"))
    exec(compile(file.read_text(), str(file), "exec"), {})
    assert started == []


def test_it_is_begun_in_the_process_that_is_meant(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr("_thread.start_new_thread", lambda *given: started.append(given))
    file = remote_window._begin_file(a_target(start_ticks=OURS.about.start_ticks), asked(tmp_path / "x"))
    exec(compile(file.read_text(), str(file), "exec"), {})
    assert len(started) == 1


def test_a_project_that_others_may_write_gets_a_folder_elsewhere(tmp_path):
    root = tmp_path / "project"
    root.mkdir(mode=0o755)
    (root / "pyproject.toml").touch()
    one = a_target(cwd=str(root))
    assert remote_window._folder(one).parent == root / ".autotune" / "watch"
    (root / ".autotune").mkdir(mode=0o755)
    (root / ".autotune" / "watch").symlink_to(tmp_path)
    assert not remote_window._folder(one).is_relative_to(tmp_path / "project")
    (root / ".autotune" / "watch").unlink()
    (root / ".autotune").chmod(0o777)
    elsewhere = remote_window._folder(one)
    assert not elsewhere.is_relative_to(root)
    assert elsewhere.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"state": "done", "why": ""}, ""),
        ({"state": "refused", "why": "it has not imported torch"}, "it has not imported torch"),
        ({"state": "failed", "why": "OSError: x"}, "it failed in the process: OSError: x"),
        ({"state": "begun"}, "it gave no answer in time; its hooks go off by themselves"),
        ([], "its main thread ran no Python for 0 s, and the probe cannot be loaded otherwise"),
        (None, "its main thread ran no Python for 0 s, and the probe cannot be loaded otherwise"),
    ],
)
def test_what_the_process_answers(tmp_path, monkeypatch, row, said):
    monkeypatch.setattr(remote_window, "REACH_S", 0.0)
    monkeypatch.setattr(remote_window, "SLACK_S", 0.0)
    if row is not None:
        (tmp_path / remote_window.ANSWER).write_text(json.dumps(row))
    assert remote_window._answer(asked(tmp_path, 0.0), OURS) == said


NEW = replace(ABOUT, python=(3, 14), uid=os.geteuid(), pid=os.getpid(), exe=sys.executable)


@pytest.mark.parametrize(
    ("changes", "said", "to_do"),
    [
        ({"python": (3, 13)}, "its Python 3.13 cannot be asked: that begins with Python 3.14", "AUTOTUNE_WATCH=1"),
        ({"python": None}, "which Python it runs is not known", "AUTOTUNE_WATCH=1"),
        ({"has_torch": False}, "it has not loaded torch", "AUTOTUNE_WATCH=1"),
        ({"environ": {"AUTOTUNE_WATCH": "1"}}, "watches or measures it already", "autotune watch"),
        ({"environ": {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}}, "remote debugging disabled", "AUTOTUNE_WATCH=1"),
        ({"argv": ("python", "-X", "disable-remote-debug", "x.py")}, "remote debugging disabled", "AUTOTUNE_WATCH=1"),
        ({"tracer": 5}, "process 5 traces it already", "debugger"),
        ({"same_files": False}, "sees other files than autotune", "Run autotune in it"),
        ({"exe": "/usr/bin/python3.14 (deleted)"}, "its program is no longer there", "AUTOTUNE_WATCH=1"),
        ({"exe": "/bin/sh"}, "its program, sh, is no interpreter of Python", "AUTOTUNE_WATCH=1"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_way_round(changes, said, to_do):
    found, tier = remote_window.measure(Target(replace(NEW, **changes), (), ()))
    assert found is None
    assert tier.state == "refused"
    assert said in tier.said
    assert to_do in tier.to_do


def test_a_python_that_refuses_is_quoted_and_leaves_no_file(tmp_path):
    """This one is too old to know sys.remote_exec; its process is said to be of a newer one."""
    if hasattr(sys, "remote_exec"):
        pytest.skip("it knows it")
    parent = other_process.about(os.getppid())
    about = replace(NEW, pid=parent.pid, start_ticks=parent.start_ticks, cwd=str(tmp_path))
    found, tier = remote_window.measure(Target(about, (), ()))
    assert found is None
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert "its Python refused: AttributeError: module 'sys' has no attribute 'remote_exec'" in tier.said
    assert list(tmp_path.iterdir()) == []


def newer():
    """An interpreter that can be asked, with torch: none on most machines."""
    for name in ("python3.14", "python3.15"):
        done = subprocess.run(["sh", "-c", f"{name} -c 'import torch, sys; sys.remote_exec'"], capture_output=True)
        if done.returncode == 0:
            return name
    return None


@pytest.mark.train
@pytest.mark.long
def test_a_real_process_is_asked(training):
    name = newer()
    if name is None:
        pytest.skip("needs Python 3.14 or later with torch")
    one = training("--bound", "python", python=name)
    found, tier = remote_window.measure(target.find(one.pid))
    assert tier.state == "used", tier
    assert found.window.phases_ms["other"] > 0.5 * found.window.step_ms
    assert found.window.places["other"].startswith("loop.py:")
    assert one.process.poll() is None
