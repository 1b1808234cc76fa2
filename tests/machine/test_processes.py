from __future__ import annotations

import os
import subprocess
import sys

import pytest

from autotune.machine import processes
from autotune.machine.processes import identity, is_gone


def test_our_own_process_is_here():
    who = identity()
    assert who["pid"] == os.getpid()
    assert not is_gone(who)


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ({"process_start": 1.0}, True),
        ({"host": "another-host"}, False),
        ({"host": "another-host", "process_start": 1.0}, False),
        ({"pid": None}, False),
        ({"process_start": None}, False),
        ({"host": None, "process_start": 1.0}, False),
    ],
    ids=["number given out again", "other host", "other host, other start", "no pid", "no start", "no host"],
)
def test_a_number_alone_proves_nothing(change, gone):
    assert is_gone(identity() | change) is gone


@pytest.mark.parametrize(
    ("hostname", "namespace", "gone"),
    [("one", "pid:[1]", True), ("two", "pid:[1]", False), ("one", "pid:[2]", False), ("one", None, False)],
)
def test_numbers_of_another_host_or_container_prove_nothing(monkeypatch, hostname, namespace, gone):
    def link(path):
        if namespace is None:
            raise OSError("no such file")
        return processes.Path(namespace)

    who = identity() | {"host": "one pid:[1]", "process_start": 1.0}
    monkeypatch.setattr(processes.socket, "gethostname", lambda: hostname)
    monkeypatch.setattr(processes.Path, "readlink", link)
    assert is_gone(who) is gone


def test_an_ended_process_is_gone_even_before_it_is_reaped():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    who = identity(child.pid)
    assert not is_gone(who)
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(who)
    child.wait()
    assert is_gone(who)
    with pytest.raises(ProcessLookupError, match=str(child.pid)):
        identity(child.pid)
