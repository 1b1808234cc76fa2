from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from autotune.collect import lock
from autotune.collect.lock import lock_folder, one_measurement
from autotune.errors import BusyError, UsageError

HOLD = (
    "import sys, pathlib; from autotune.collect.lock import one_measurement\n"
    "with one_measurement('train.py', pathlib.Path(sys.argv[1])):\n"
    "    print('held', flush=True); input()"
)


def path(folder):
    return folder / f"autotune-{os.getuid()}.lock"


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock in tmp_path."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_busy_tells_who_holds_it_and_the_way_around(tmp_path, holder):
    with pytest.raises(BusyError) as caught, one_measurement("mine.py", tmp_path):
        pytest.fail("the lock was given twice")
    assert f"(train.py, process {holder.pid} since " in caught.value.what
    assert caught.value.where == str(path(tmp_path))
    assert "--no-lock" in caught.value.to_do


def test_a_killed_holder_is_no_obstacle(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert path(tmp_path).stat().st_size > 0
    with one_measurement("mine.py", tmp_path):
        assert b"mine.py" in path(tmp_path).read_bytes()


def test_a_holder_that_has_not_written_yet(tmp_path, holder):
    path(tmp_path).write_text("")
    with pytest.raises(BusyError) as caught, one_measurement("mine.py", tmp_path):
        pass
    assert caught.value.what == "another measurement runs on this machine"


@pytest.mark.parametrize("content", ["garbage", "[1]", '{"pid": 5}', ""])
def test_a_file_that_was_left_behind_is_no_obstacle(tmp_path, content):
    path(tmp_path).write_text(content)
    with one_measurement("mine.py", tmp_path):
        pass
    assert path(tmp_path).read_text() == ""


def test_the_lock_comes_back_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), one_measurement("mine.py", tmp_path):
        raise ZeroDivisionError
    with one_measurement("mine.py", tmp_path):
        pass


def test_it_excludes_the_own_process_too(tmp_path):
    with (
        one_measurement("a.py", tmp_path),
        pytest.raises(BusyError, match=r"\(a\.py, "),
        one_measurement("b.py", tmp_path),
    ):
        pass


def test_a_child_does_not_keep_it(tmp_path):
    with one_measurement("mine.py", tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        with one_measurement("mine.py", tmp_path):
            assert child.poll() is None
    finally:
        child.communicate(b"\n")


def test_a_copy_of_the_descriptor_does_not_keep_it(tmp_path, monkeypatch):
    copies, real_open = [], lock._open
    monkeypatch.setattr(lock, "_open", lambda place: copies.append(os.dup(fd := real_open(place))) or fd)
    with one_measurement("mine.py", tmp_path):
        pass
    with one_measurement("mine.py", tmp_path):
        pass
    assert len(copies) == 2
    for copy in copies:
        os.close(copy)


def test_only_the_user_can_read_it_and_no_argument_is_in_it(tmp_path):
    before = time.time()
    with one_measurement("mine.py", tmp_path):
        assert path(tmp_path).stat().st_mode & 0o777 == 0o600
        held = lock.json.loads(path(tmp_path).read_text())
    assert held.keys() == {"pid", "started", "what", "job"}
    assert (held["pid"], held["what"]) == (os.getpid(), "mine.py")
    assert before <= held["started"] <= time.time()


def test_a_planted_link_is_refused(tmp_path):
    target = tmp_path / "precious"
    target.write_text("data")
    path(tmp_path).symlink_to(target)
    with pytest.raises(UsageError, match="cannot be opened") as caught, one_measurement("mine.py", tmp_path):
        pass
    assert "--no-lock" in caught.value.to_do
    assert target.read_text() == "data"


def test_the_folder_does_not_follow_the_shells_variables(tmp_path, monkeypatch):
    usual = lock_folder()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert lock_folder() == usual


def test_the_temporary_folder_is_the_last_resort(tmp_path, monkeypatch):
    monkeypatch.setattr(lock.os, "access", lambda *_: False)
    monkeypatch.setattr(lock.tempfile, "tempdir", str(tmp_path))
    assert lock_folder() == tmp_path


SHARED = HOLD.replace("[1]))", "[1]), 'slurm-7.0')")


def test_autotunes_of_the_ranks_of_one_job_are_one_measurement(tmp_path):
    command = [sys.executable, "-c", SHARED, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with one_measurement("mine.py", tmp_path, "slurm-7.0"):
            assert json.loads(path(tmp_path).read_bytes())["pid"] == process.pid
        for job in ("", "slurm-7.1"):
            with pytest.raises(BusyError), one_measurement("mine.py", tmp_path, job):
                pytest.fail("the lock was given to another job")
        process.communicate(b"\n")


def test_jobs_that_nothing_names_are_not_the_same(tmp_path, holder):
    with pytest.raises(BusyError), one_measurement("mine.py", tmp_path, ""):
        pytest.fail("the lock was given twice")
