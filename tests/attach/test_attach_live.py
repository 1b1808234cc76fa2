"""Real processes, looked at from outside. On a machine that others use, a thread may be short of CPUs: that is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from autotune.attach import target
from autotune.attach.attach import AttachOptions, attach
from autotune.errors import UsageError
from autotune.machine import other_process
from autotune.report import json as reports
from autotune.report import render

SCHEMA = json.loads((Path(reports.__file__).parent / "attach.schema.json").read_text())
SPIN = "import sys\nprint('go', flush=True)\nwhile True:\n    sum(range(1000))\n"
SLEEP = "import time\nprint('go', flush=True)\ntime.sleep(600)\n"
SHORT = {"queued"}
"""What may be said of any process while others use the machine."""


def look(pid, seconds=1.5, **options):
    """What tier 1 says of a process."""
    found = attach(AttachOptions(pid, seconds, **options))
    jsonschema.validate(json.loads(render("diagnose --pid", found, "json")), SCHEMA)
    assert render("diagnose --pid", found, "text").startswith(found.verdict.text[:40])
    return found


def children(pid):
    """The processes that one has started."""
    return [one.pid for one in other_process.tree(pid)[1:] if one.parent == pid]


@pytest.mark.train
def test_a_training_whose_loader_starves_it(training):
    """A sample takes 20 ms of Python in one worker, a step a millisecond; its bar goes to a file. The shell that has
    started it names it."""
    one = training("--bound", "loader", "--workers", "1", "--steps", "5000", before=("sh", "-c", '"$@"; :', "sh"))
    (pid,) = children(one.pid)
    with pytest.raises(UsageError, match=r"\(dash|sh|bash\) is no Python: it has started what trains") as raised:
        look(one.pid)
    assert f"autotune diagnose --pid {pid}    # loop.py" in raised.value.to_do
    found = look(pid, 4.0)
    os.kill(pid, signal.SIGKILL)
    assert found.verdict.kind in {"starved_by_workers"} | SHORT
    assert found.process.has_torch
    (worker,) = found.workers
    assert worker.use.waits_for_work_share < 0.2 < found.main.waits_for_work_share
    assert (found.progress.source, found.progress.total) == (one.log.name, 5000)
    assert 0.05 < found.progress.step_s < 2.0
    assert not found.progress.is_own_rate
    assert found.restart.answer == "may_pay"


@pytest.mark.train
def test_a_healthy_training_on_all_its_cpus(training):
    count = len(os.sched_getaffinity(0))
    found = look(training("--bound", "model", "--threads", count).pid, 3.0)
    assert found.verdict.kind in {"cpu_busy"} | SHORT or found.cpus.own < 0.8 * found.cpus.allowed, found
    assert found.workers == ()


@pytest.mark.train
@pytest.mark.long
def test_a_launcher_names_its_ranks_and_a_rank_the_others(training):
    one = training(
        "--bound", "sleep", before=(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"), python=None
    )
    while "it/s" not in one.log.read_text():  # torchrun itself has said something before
        time.sleep(0.1)
    with pytest.raises(UsageError, match="is a launcher: it has started what trains") as raised:
        look(one.pid)
    ranks = children(one.pid)
    assert [f"--pid {pid}    # loop.py, rank {rank}" in raised.value.to_do for rank, pid in enumerate(ranks)] == [
        True
    ] * 2
    found = look(ranks[1], 1.0)
    assert found.process.rank == 1
    assert [(other.pid, other.what, other.rank) for other in found.others] == [(ranks[0], "rank", 0)]
    one.process.terminate()
    one.process.wait()


def test_one_that_is_bound_by_a_single_thread(start, script):
    found = look(start(script(SPIN)).pid)
    assert found.verdict.kind in {"one_thread"} | SHORT
    assert found.main.cpu_share + found.main.queued_share > 0.8
    assert found.process.script == "script.py"
    assert "it has not loaded torch" in found.notes[0]


def test_one_that_sleeps_and_one_that_is_stopped(start, script):
    one = start(script(SLEEP))
    assert look(one.pid, 1.0).verdict.kind == "idle"
    one.process.send_signal(signal.SIGSTOP)
    assert look(one.pid, 1.0).verdict.kind == "stopped"


def test_the_cpus_that_it_may_use_are_its_own(start, script):
    cpu = min(os.sched_getaffinity(0))
    found = look(start(script(SPIN), before=("taskset", "-c", str(cpu))).pid)
    if os.cpu_count() > 1:
        assert (found.cpus.allowed, found.cpus.limited_by) == (1.0, "affinity")


GROUPS = Path("/sys/fs/cgroup/cpu")


@pytest.mark.skipif(not os.access(GROUPS, os.W_OK), reason="needs root, and control groups of version 1")
def test_one_that_its_control_group_throttles(start, script):
    group = GROUPS / f"autotune-test-{os.getpid()}"
    group.mkdir()
    one = start(script(SPIN))
    try:
        (group / "cpu.cfs_quota_us").write_text("20000")
        (group / "cgroup.procs").write_text(str(one.pid))
        found = look(one.pid)
    finally:
        one.process.kill()
        one.process.wait()
        group.rmdir()
    assert found.verdict.kind == "throttled"
    assert found.cpus.allowed == pytest.approx(0.2)
    assert found.cpus.limited_by == "cgroup"


def test_a_process_that_is_no_python():
    child = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(UsageError, match=r"process \d+ \(sleep\) is no Python, and nothing below it trains"):
            look(child.pid)
    finally:
        child.kill()
        child.wait()


def test_what_is_not_here_and_what_ends_meanwhile(start, script):
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(UsageError, match="there is no process") as raised:
        look(gone.pid)
    assert "docker exec" in raised.value.to_do
    with pytest.raises(UsageError, match="is autotune itself"):
        look(os.getpid())
    short = start(script("import time\nprint('go', flush=True)\ntime.sleep(0.6)\n"))
    time.sleep(0.4)
    with pytest.raises(UsageError, match="has ended"):
        look(short.pid, 30.0)
        look(short.pid, 30.0)


def test_one_that_ends_during_the_look_is_said_to_have_ended(start, script):
    short = start(script("import time\nprint('go', flush=True)\ntime.sleep(2.0)\n"))
    found = look(short.pid, 30.0)
    assert found.notes[0] == "it has ended meanwhile: what is said is of the time before"
    assert [tier.said for tier in found.tiers[1:]] == ["the process ended meanwhile"] * 2
    assert (found.restart.answer, found.restart.missing) == ("cannot_tell", ("how it ended",))


def test_a_thread_is_no_process(start, script):
    text = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nprint('go', flush=True)\n"
    one = start(script(text))
    (thread,) = [int(name) for name in os.listdir(f"/proc/{one.pid}/task") if int(name) != one.pid]
    with pytest.raises(UsageError, match=f"{thread} is a thread of process {one.pid}") as raised:
        look(thread)
    assert raised.value.to_do == f"Look at the process: autotune diagnose --pid {one.pid}"


def test_a_thread_of_the_kernel_is_refused(tmp_path):
    folder = tmp_path / "proc/2"
    folder.mkdir(parents=True)
    flags, others = 0x00200000 | 0x40, " ".join(["0"] * 40)
    (folder / "stat").write_text(f"2 (kthreadd) S 0 0 0 0 -1 {flags} {others}\n")
    with pytest.raises(UsageError, match="2 is a thread of the kernel"):
        target.find(2, tmp_path)


NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_a_process_of_another_user_is_seen_as_far_as_the_system_lets(start, script):
    """As nobody, of a process of root: CPU time and memory are public, variables and outputs are not."""
    one = start(script(SPIN))
    code = (
        "import sys; from autotune.cli import run; "
        f"sys.exit(run(['diagnose', '--pid', '{one.pid}', '--seconds', '1', '--format', 'json', '--quiet']))"
    )
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["process"]["is_own"] is False
    assert found["process"]["has_torch"] is None
    assert found["main"]["cpu_share"] + found["main"]["queued_share"] > 0.5
    tier = found["tiers"][0]
    assert "the system hides" in tier["said"]
    assert "with sudo" in tier["to_do"]
    assert "belongs to another user" in found["why_no_progress"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a PID namespace")
def test_in_and_out_of_a_container(start, script):
    """From outside it has our number and one of its own; inside, only its own is known."""
    one = start(script(SPIN), before=("unshare", "--pid", "--mount-proc", "--fork", "--kill-child"))
    (pid,) = children(one.pid)
    found = look(pid)
    assert "it runs in a container of its own, as process 1" in found.notes
    code = (
        "import sys; from autotune.cli import run; "
        "[run(['diagnose', '--tier', '1', '--seconds', '1', '--quiet', '--pid', pid]) for pid in sys.argv[1:]]"
    )
    inside = f'{sys.executable} script.py & sleep 0.5; {sys.executable} -c "$1" $! {pid}; kill $!'
    words = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", inside, "sh", code]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    seen = subprocess.run(words, capture_output=True, text=True, cwd=one.log.parent, env=environ)
    assert "script.py, process" in seen.stdout, seen.stderr
    assert f"there is no process {pid} here" in seen.stderr
