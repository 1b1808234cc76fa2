from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from autotune.machine import job

WAIT = "print('ready', flush=True); input()"
FORK = "import os\nif os.fork() == 0: print('ready', os.getpid(), flush=True)\ninput()"
DETACHED = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
print("ready", child.pid, flush=True)
input()
"""


@pytest.fixture
def start(tmp_path):
    """start(*argv, **environ): a process in a session of its own that has printed its first line, and that line."""
    started = []

    def begin(*argv, **environ):
        child = subprocess.Popen(
            argv,
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(child)
        return child, child.stdout.readline().split()

    yield begin
    for child in started:
        for member in [*psutil.Process(child.pid).children(recursive=True)] if psutil.pid_exists(child.pid) else []:
            member.kill()
        child.kill()
        child.communicate()


@pytest.fixture
def request_path(tmp_path):
    return str(tmp_path / "request.json")


def greet(folder, pid):
    (folder / f"hello-{pid}").touch()


def found_below(pid, folder):
    """What is found below `pid`; waits a moment for one that is just being started."""
    deadline = time.monotonic() + 5
    while (found := job.uninjected(pid, folder, {})) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def alive(pid):
    """Whether `pid` still runs; waits a moment for one that was just killed."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(job, "_PATIENCE_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_python_without_the_probe_is_found_with_how_it_was_started(start, tmp_path):
    child, _ = start(sys.executable, "-c", WAIT, "argument", MINE="1")
    found = job.uninjected(child.pid, tmp_path, {})
    assert found.argv == (sys.executable, "-c", WAIT, "argument")
    assert found.cwd == str(tmp_path)
    assert found.environ["MINE"] == "1"


@pytest.mark.usefixtures("impatient")
def test_one_below_a_shell_is_found(start, tmp_path):
    child, _ = start("/bin/sh", "-c", f'"{sys.executable}" -c "{WAIT}"; true')
    assert found_below(child.pid, tmp_path).argv == (sys.executable, "-c", WAIT)


@pytest.mark.usefixtures("impatient")
def test_a_process_that_said_hello_is_none(start, tmp_path):
    child, _ = start(sys.executable, "-c", WAIT)
    greet(tmp_path, child.pid)
    assert job.uninjected(child.pid, tmp_path, {}) is None


@pytest.mark.usefixtures("impatient")
def test_a_fork_of_one_that_said_hello_carries_the_probe(start, tmp_path):
    child, _ = start(sys.executable, "-c", FORK)
    greet(tmp_path, child.pid)
    assert job.uninjected(child.pid, tmp_path, {}) is None


@pytest.mark.usefixtures("impatient")
def test_another_interpreter_below_one_that_said_hello_is_found(start, tmp_path):
    child, (_, below) = start(sys.executable, "-c", DETACHED)
    greet(tmp_path, child.pid)
    assert found_below(child.pid, tmp_path).argv == (sys.executable, "-c", "input()")
    assert psutil.pid_exists(int(below))


@pytest.mark.usefixtures("impatient")
def test_other_programs_need_no_probe(start, tmp_path):
    child, _ = start("/bin/sh", "-c", "echo ready; read line")
    assert job.uninjected(child.pid, tmp_path, {}) is None


@pytest.mark.usefixtures("impatient")
def test_a_process_in_the_middle_of_exec_is_asked_again(start, tmp_path, monkeypatch):
    child, _ = start(sys.executable, "-c", WAIT)
    with monkeypatch.context() as patch:
        patch.setattr(job.psutil.Process, "cmdline", lambda process: [])
        assert job.uninjected(child.pid, tmp_path, {}) is None
    assert job.uninjected(child.pid, tmp_path, {}) is not None


@pytest.mark.usefixtures("impatient")
def test_what_is_judged_is_the_command_line_that_was_read_first(start, tmp_path, monkeypatch):
    child, _ = start(sys.executable, "-c", WAIT)
    (tmp_path / f"hello-{os.getpid()}").touch()
    lines = {os.getpid(): [["python", "train.py"]] * 2, child.pid: [["python", "train.py"], []]}
    monkeypatch.setattr(job.psutil.Process, "cmdline", lambda process: lines[process.pid].pop(0))
    assert job.uninjected(child.pid, tmp_path, {}) is None


def test_a_young_process_has_time_to_say_hello(start, tmp_path, monkeypatch):
    child, _ = start(sys.executable, "-c", WAIT)
    seen = {}
    assert job.uninjected(child.pid, tmp_path, seen) is None
    first = seen[child.pid]
    monkeypatch.setattr(job.time, "monotonic", lambda: first + 2 * job._PATIENCE_S)
    assert job.uninjected(child.pid, tmp_path, seen) is not None


def test_a_process_that_is_gone_has_nothing_to_find(tmp_path, start):
    child, _ = start(sys.executable, "-c", WAIT)
    child.communicate("\n")
    assert job.uninjected(child.pid, tmp_path, {}) is None
    job.end_job(child.pid, tmp_path)


def test_the_whole_tree_ends_with_sessions_of_their_own(start, tmp_path):
    child, (_, below) = start(sys.executable, "-c", DETACHED)
    job.end_job(child.pid, tmp_path)
    assert not alive(child.pid)
    assert not alive(int(below))


def test_an_orphan_that_said_hello_ends_too(start, tmp_path, request_path):
    child, (_, below) = start(sys.executable, "-c", DETACHED, AUTOTUNE_REQUEST=request_path)
    greet(tmp_path, below)
    child.kill()
    child.wait()
    job.end_job(child.pid, tmp_path)
    assert not alive(int(below))


@pytest.mark.parametrize("environ", [{}, {"AUTOTUNE_REQUEST": "/another/run/request.json"}])
def test_a_stranger_with_a_reused_number_lives_on(start, tmp_path, monkeypatch, environ):
    stranger, _ = start(sys.executable, "-c", WAIT, **environ)
    greet(tmp_path, stranger.pid)
    gone, _ = start(sys.executable, "-c", WAIT)
    gone.communicate("\n")
    job.end_job(gone.pid, tmp_path)
    assert stranger.poll() is None
    assert stranger.communicate("\n") is not None
    assert stranger.returncode == 0
