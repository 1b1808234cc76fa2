"""Processes that somebody else started, read from /proc: fake trees, and real ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from autotune.machine import other_process

STAT = "{pid} ({name}) S {parent} 1 1 0 -1 0 5 0 {faults} 0 200 100 0 0 20 0 1 0 900 0 0 0 0 0 0 0 0 0 0"
STATUS = "Uid:\t1000\t1001\t1000\t1000\nNSpid:\t{pid}\t12\nVmRSS:\t  10 kB\nVmSwap:\t 2 kB\nCpus_allowed_list:\t0-1,4\n"


def fake(pid, parent, name="python", cmdline="", environ="", maps=""):
    """Files of a process; links are missing, as those of another user's."""
    stat = STAT.format(pid=pid, parent=parent, name=name, faults=3)
    return {
        f"proc/{pid}/stat": stat,
        f"proc/{pid}/status": STATUS.format(pid=pid),
        f"proc/{pid}/cmdline": cmdline,
        f"proc/{pid}/environ": environ,
        f"proc/{pid}/maps": maps,
        f"proc/{pid}/task/{pid}/stat": stat,
        f"proc/{pid}/task/{pid}/schedstat": "3000000000 500000000 7",
        f"proc/{pid}/task/{pid}/wchan": "futex_do_wait",
    }


def test_a_reading_has_counters_of_the_process_and_its_threads(fake_root):
    root = fake_root(fake(7, 1, name="a) (b"))
    found = other_process.read(7, root)
    assert (found.name, found.parent, found.state, found.start_ticks) == ("a) (b", 1, "S", 900)
    assert (found.rss_bytes, found.swap_bytes, found.major_faults) == (10 * 1024, 2 * 1024, 3)
    assert found.read_bytes is None
    assert found.main.cpu_s == pytest.approx(300 / os.sysconf("SC_CLK_TCK"))
    assert (found.main.queued_s, found.main.sleeps_in) == (0.5, "futex_do_wait")
    assert other_process.read(8, root) is None


def test_a_tree_has_each_process_after_its_parent(fake_root):
    root = fake_root(fake(7, 1) | fake(9, 8) | fake(8, 7) | fake(10, 1))
    assert [one.pid for one in other_process.tree(7, root)] == [7, 8, 9]
    assert other_process.tree(11, root) == ()


def test_what_a_process_is(fake_root):
    maps = "7f00 r-xp 00 00 1 /venv/lib/python3.14/site-packages/torch/lib/libtorch_cpu.so"
    found = other_process.about(
        7, fake_root(fake(7, 1, cmdline="python\0train.py\0", environ="RANK=3\0A=b=c\0", maps=maps))
    )
    assert (found.uid, found.argv, found.python) == (1001, ("python", "train.py"), (3, 14))
    assert (found.has_torch, found.has_cuda) == (True, False)
    assert (found.environ["A"], other_process.rank_of(found)) == ("b=c", 3)
    assert found.namespace_pids == (7, 12)
    assert found.cpus == {0, 1, 4}


def test_what_is_hidden_is_unknown(fake_root):
    files = fake(7, 1, cmdline="python3.12\0x.py\0")
    for name in ("maps", "environ"):
        del files[f"proc/7/{name}"]
    found = other_process.about(7, fake_root(files))
    assert (found.exe, found.cwd, found.environ, found.has_torch, found.has_cuda) == (None, None, None, None, None)
    assert found.is_python is True


TORCH = "7f00 r-xp 00 00 1 /x/libtorch_cpu.so"


@pytest.mark.parametrize(
    ("fields", "role"),
    [
        ({"name": "pt_data_worker"}, "worker"),
        ({"cmdline": "python\0train.py\0"}, "worker"),
        ({"cmdline": "python\0-c\0from multiprocessing.spawn import spawn_main\0"}, "worker"),
        ({"cmdline": "python\0-c\0from multiprocessing.forkserver import main\0"}, "other"),
        ({"cmdline": "python\0-c\0from multiprocessing.resource_tracker import main\0"}, "other"),
        ({"cmdline": "python\0train.py\0", "environ": "RANK=1\0"}, "rank"),
        ({"cmdline": "python\0tokenise.py\0"}, "other"),
        ({"cmdline": "bash\0", "maps": "7f00 r-xp 00 00 1 /usr/bin/bash"}, "other"),
    ],
)
def test_what_a_child_is(fake_root, fields, role):
    child = {"maps": TORCH} | fields
    root = fake_root(fake(7, 1, cmdline="python\0train.py\0", maps=TORCH) | fake(8, 7, **child))
    found = other_process.role(other_process.read(8, root), other_process.about(8, root), other_process.about(7, root))
    assert found == role


def test_our_own_process_can_be_read(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as file:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=file)
    try:
        about = other_process.about(child.pid)
        assert about.is_python
        assert about.python == sys.version_info[:2]
        assert about.outputs[0] == str(log)
        assert about.same_files is True
        assert other_process.can_be_traced(child.pid)
        assert child.pid in [one.pid for one in other_process.tree(os.getpid())]
    finally:
        child.communicate(b"\n")


def test_the_file_that_tee_writes_is_found(tmp_path):
    log = tmp_path / "train.log"
    shell = subprocess.Popen(["sh", "-c", f"{sys.executable} -c 'input()' | tee {log}; :"], stdin=subprocess.PIPE)
    try:
        child = wait_for(lambda: next(one for one in other_process.tree(shell.pid) if "python" in one.name))
        pipe = other_process.about(child.pid).outputs[0]
        found = wait_for(lambda: other_process.readers_of(pipe, child.pid)[0])
        assert os.path.realpath(found) == str(log)
    finally:
        shell.communicate(b"\n")


def wait_for(look):
    """What `look` gives once it does not raise."""
    import time

    for _ in range(200):
        try:
            return look()
        except (StopIteration, IndexError):
            time.sleep(0.02)
    raise AssertionError("nothing came")


def test_workers_of_multiprocessings_server_are_below_it(fake_root):
    """Python 3.14 forks workers from a server, which is the training's child."""
    server = "python\0-c\0from multiprocessing.forkserver import main\0"
    files = fake(7, 1, cmdline="python\0train.py\0", maps=TORCH) | fake(8, 7, cmdline=server, maps=TORCH)
    root = fake_root(files | fake(9, 8, cmdline=server, maps=TORCH))
    above = other_process.about(8, root)
    assert other_process.role(other_process.read(9, root), other_process.about(9, root), above) == "worker"
