from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from autotune.machine import job

WAIT = "print('ready', flush=True); input()"
HELLO = """
import mmap, os
with open(f"hello-{os.getpid()}", "w+b") as file:
    file.truncate(1)
    kept = mmap.mmap(file.fileno(), 1)
"""
FORK = "import os\nif os.fork() == 0: print('ready', os.getpid(), flush=True)\ninput()"
EXEC = "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', \"print('ready', flush=True); input()\"])"
DAEMON = """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("ready", os.getpid(), flush=True)
        import time; time.sleep(600)
    os._exit(0)
os.wait()
"""
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


def found_below(pid, folder):
    """What is found below `pid`; waits a moment for one that is just being started."""
    deadline = time.monotonic() + 5
    while (found := job.uninjected(pid, folder, {})) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def alive(pid):
    """Whether `pid` runs."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def stays_alive(pid):
    """Whether `pid` still runs; waits a moment for one that was just killed."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not alive(pid):
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def impatient(monkeypatch):
    for name in ("_PATIENCE_S", "_PATIENCE_CPU_S"):
        monkeypatch.setattr(job, name, 0.0)


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
    child, _ = start(sys.executable, "-c", HELLO + WAIT)
    assert job.uninjected(child.pid, tmp_path, {}) is None


@pytest.mark.usefixtures("impatient")
def test_one_that_ends_and_has_dropped_its_mapping_by_then_is_none(start, tmp_path):
    child, _ = start(sys.executable, "-c", HELLO + "print('ready', flush=True); input(); kept.close()\n" + WAIT)
    seen = {}
    assert job.uninjected(child.pid, tmp_path, seen) is None
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "ready\n"
    assert f"/hello-{child.pid}" not in Path(f"/proc/{child.pid}/maps").read_text()
    assert job.uninjected(child.pid, tmp_path, seen) is None


def test_one_that_got_no_cpu_yet_is_asked_again(start, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "_PATIENCE_S", 0.0)
    child, _ = start(sys.executable, "-c", WAIT)
    seen = {}
    assert job.uninjected(child.pid, tmp_path, seen) is None
    monkeypatch.setattr(job, "_LONGEST_S", 0.0)
    assert job.uninjected(child.pid, tmp_path, seen) is not None


@pytest.mark.usefixtures("impatient")
def test_one_that_execs_itself_lost_the_probe(start, tmp_path):
    child, _ = start(sys.executable, "-c", HELLO + EXEC)
    assert (tmp_path / f"hello-{child.pid}").exists()
    assert found_below(child.pid, tmp_path).argv[1] == "-c"


@pytest.mark.usefixtures("impatient")
def test_an_exec_is_seen_after_the_hello(start, tmp_path):
    code = HELLO + "print('ready', flush=True); input()\n" + EXEC
    child, _ = start(sys.executable, "-c", code)
    seen = {}
    assert job.uninjected(child.pid, tmp_path, seen) is None
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "ready\n"
    job.uninjected(child.pid, tmp_path, seen)
    assert job.uninjected(child.pid, tmp_path, seen) is not None


@pytest.mark.usefixtures("impatient")
def test_a_fork_of_one_that_said_hello_carries_the_probe(start, tmp_path):
    child, _ = start(sys.executable, "-c", HELLO + FORK)
    assert job.uninjected(child.pid, tmp_path, {}) is None


@pytest.mark.usefixtures("impatient")
def test_another_interpreter_below_one_that_said_hello_is_found(start, tmp_path):
    child, (_, below) = start(sys.executable, "-c", HELLO + DETACHED)
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
def test_the_program_that_makes_the_mounts_is_ours(start, tmp_path):
    child, _ = start(sys.executable, "-c", WAIT, "mount_namespace.py")
    assert job.uninjected(child.pid, tmp_path, {}) is None


def test_a_young_process_has_time_to_say_hello(start, tmp_path, monkeypatch):
    child, _ = start(sys.executable, "-c", WAIT)
    seen = {}
    assert job.uninjected(child.pid, tmp_path, seen) is None
    (first,) = seen.values()
    monkeypatch.setattr(job.time, "monotonic", lambda: first.at_s + 2 * job._LONGEST_S)
    assert job.uninjected(child.pid, tmp_path, seen) is not None


def test_a_process_that_is_gone_has_nothing_to_find(tmp_path, start):
    child, _ = start(sys.executable, "-c", WAIT)
    child.communicate("\n")
    assert job.uninjected(child.pid, tmp_path, {}) is None
    job.end_job(child.pid, tmp_path)


def test_the_whole_tree_ends_with_sessions_of_their_own(start, tmp_path):
    child, (_, below) = start(sys.executable, "-c", DETACHED)
    job.end_job(child.pid, tmp_path)
    assert not stays_alive(child.pid)
    assert not stays_alive(int(below))


@pytest.fixture
def begin(tmp_path):
    """begin(*argv, **environ): a job that has printed its first line, and that line."""
    started = []

    def begin(*argv, **environ):
        def start():
            return subprocess.Popen(
                argv,
                cwd=tmp_path,
                env={"PATH": "/usr/bin:/bin", **environ},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )

        child = job.start_job(start)
        started.append(child)
        return child, child.stdout.readline().decode().split()

    yield begin
    for child in started:
        job.end_job(child.pid, tmp_path)
        child.communicate()


def test_a_daemon_ends_with_its_job_and_is_named(begin, tmp_path):
    child, (_, daemon) = begin(sys.executable, "-c", DAEMON)
    child.wait()
    assert alive(int(daemon))
    (name,) = job.end_job(child.pid, tmp_path)
    assert name.startswith("python")
    assert not psutil.pid_exists(int(daemon))


@pytest.mark.parametrize("is_told", [True, False])
def test_of_two_jobs_the_first_to_end_takes_only_what_is_surely_its_own(begin, tmp_path, is_told):
    environ = {"AUTOTUNE_REQUEST": str(tmp_path / "request.json")} if is_told else {}
    child, (_, daemon) = begin(sys.executable, "-c", DAEMON, **environ)
    other, _ = begin(sys.executable, "-c", WAIT)
    child.wait()
    assert bool(job.end_job(child.pid, tmp_path)) is is_told
    assert alive(int(daemon)) is not is_told
    assert other.poll() is None
    assert bool(job.end_job(other.pid, tmp_path / "another")) is not is_told
    assert not psutil.pid_exists(int(daemon))


@pytest.mark.parametrize("own_session", [False, True])
def test_other_children_of_this_process_live_on(begin, tmp_path, own_session):
    words = [sys.executable, "-c", "input()"]
    bystander = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=own_session)
    try:
        child, _ = begin(sys.executable, "-c", WAIT)
        assert job.end_job(child.pid, tmp_path) == ()
        assert bystander.poll() is None
    finally:
        bystander.communicate(b"\n")
