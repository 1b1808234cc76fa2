"""Whole runs under watch: what is said, when, and that the run is the one that it would have been."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from autotune import model
from autotune.model.watched import WatchedProcess
from autotune.watched.watched import watched

pytestmark = pytest.mark.train
SCRIPTS = Path(__file__).parents[2] / "fixtures" / "watched"
STATE = json.loads((Path(model.__file__).parent / "watch.schema.json").read_text())


def states(folder):
    return [json.loads(path.read_text()) for path in folder.glob(".autotune/watch/*/state-*.json")]


def test_a_loader_that_starves_after_an_epoch_is_said_soon_after_it_with_its_phase(run):
    """60 batches of the first epoch come from a cache; later ones take 40 ms more."""
    row = run(SCRIPTS / "starving.py", "--epochs", "3", "--slow", "0.01").row
    (drifted,) = row.process.drift
    assert drifted.what == "step_time"
    assert drifted.phases[0].phase == "data_wait"
    assert drifted.phases[0].now_ms > drifted.phases[0].first_ms + 25
    assert 60 < drifted.said_at_step <= 130
    assert 40 <= drifted.since_step <= 110
    assert drifted.place is not None and drifted.place.startswith("starving.py:")
    assert [window.reason for window in row.process.windows][:2] == ["planned", "moved"]


def test_steps_that_creep_up_are_said_with_the_phase_that_does(run):
    done = run(SCRIPTS / "creeping.py", "--steps", "300")
    (drifted,) = done.row.process.drift
    assert drifted.phases[0].phase == "other"
    assert 40 < drifted.said_at_step < 300
    assert "the script's own code rose from" in done.err
    assert f"(said after step {drifted.said_at_step})" in done.err


def test_a_healthy_run_has_not_drifted_and_is_the_run_that_it_would_have_been(run, tmp_path):
    script, metrics = SCRIPTS / "steady.py", tmp_path / "train.prom"
    words = ["--steps", "120", "--status", "7"]
    alone = subprocess.run([sys.executable, script, *words], capture_output=True, text=True)
    done = run(script, *words, variables={"AUTOTUNE_WATCH_PROMETHEUS": str(metrics)})
    assert (done.out, done.code) == (alone.stdout, alone.returncode) == (alone.stdout, 7)
    # On a machine that others use steps do take longer: that is said of the machine, never of a phase.
    assert "nothing has drifted" in done.err or done.row.process.drift
    assert [one.phases for one in done.row.process.drift if not one.is_alike and one.queued_ms is None] == []
    assert done.row.life == "ended"
    assert len(done.err.strip().splitlines()) <= 2 + 3
    assert set(done.row.process.windows[0].phases_ms) >= {"forward", "backward", "optimizer", "other"}
    (state,) = states(tmp_path)
    jsonschema.validate(state, STATE)
    assert (tmp_path / ".autotune" / ".gitignore").read_text() == "*\n"
    samples = dict(re.findall(r"^(autotune_\w+)\{[^}]*\} (\S+)$", metrics.read_text(), re.MULTILINE))
    assert float(samples["autotune_steps_total"]) == 120
    assert 0.004 < float(samples["autotune_step_seconds"]) < 0.2
    assert float(samples["autotune_drifted"]) == bool(done.row.process.drift)
    assert 'script="steady.py",rank="0"' in metrics.read_text()
    assert [each.name for each in tmp_path.glob("*.part-*")] == []


def test_an_exception_of_the_script_is_named_and_its_own(run):
    done = run(SCRIPTS / "steady.py", "--steps", "40", "--fail")
    assert (done.code, done.row.life, done.row.process.error) == (1, "raised", "RuntimeError")
    assert "RuntimeError: as asked" in done.err


def test_a_process_that_never_makes_a_step_leaves_nothing(run, tmp_path):
    done = run("-c", "import torch, sys; print('json' in sys.modules)")
    assert (done.code, done.err) == (0, "")
    assert not (tmp_path / ".autotune").exists()


def test_a_script_without_an_optimizer_is_told_that_nothing_was_watched(run, tmp_path):
    (tmp_path / "by_hand.py").write_text(
        "import torch\n"
        "model = torch.nn.Linear(4, 1)\n"
        "for _ in range(30):\n"
        "    model(torch.ones(2, 4)).sum().backward()\n"
        "    with torch.no_grad():\n"
        "        for one in model.parameters():\n"
        "            one -= 0.1 * one.grad\n"
    )
    done = run("by_hand.py")
    assert (done.code, done.rows) == (0, ())
    assert done.err == "autotune: nothing was watched: no optimizer of torch made a step (docs/watch.md)\n"


def test_a_killed_process_is_said_to_be_killed_and_a_living_one_to_run(environ, tmp_path):
    process = subprocess.Popen(
        [sys.executable, SCRIPTS / "steady.py", "--steps", "100000"],
        cwd=tmp_path,
        env=environ(),
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not [state for state in states(tmp_path) if state["windows"]]:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        (alive,) = watched(None, cwd=tmp_path).rows
        assert alive.life == "running"
        assert alive.idle_s is not None and alive.idle_s < 10
    finally:
        process.kill()
        process.wait()
    (gone,) = watched(None, cwd=tmp_path).rows
    assert (gone.life, gone.process.state) == ("killed", "running")


def test_ctrl_c_ends_it_as_it_would_have(environ, tmp_path):
    with subprocess.Popen(
        [sys.executable, SCRIPTS / "steady.py", "--steps", "100000"],
        cwd=tmp_path,
        env=environ(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not [state for state in states(tmp_path) if state["windows"]]:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        err = process.stderr.read()
        assert process.wait(30) == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    (row,) = watched(None, cwd=tmp_path).rows
    assert (row.life, row.process.error) == ("raised", "KeyboardInterrupt")


FORKS = """
import multiprocessing, os, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset

def train(steps, name):
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.ones(4 * steps, 16)), batch_size=4, num_workers=2)
    for (batch,) in loader:
        model(batch).sum().backward()
        optimizer.step()
        time.sleep(0.002)
    print(name, flush=True)

if __name__ == "__main__":
    train(30, "parent")
    child = os.fork()
    if child == 0:
        train(40, "child")
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    process = multiprocessing.get_context("spawn").Process(target=train, args=(35, "spawned"))
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


@pytest.mark.long
def test_each_process_that_trains_has_a_state_in_the_same_folder_and_workers_have_none(run, tmp_path):
    (tmp_path / "forks.py").write_text(FORKS)
    done = run("forks.py")
    assert (done.code, done.out.split()) == (0, ["parent", "child", "spawned"]), done.err
    assert len({row.folder for row in done.rows}) == 1
    assert sorted(row.process.steps for row in done.rows) == [30, 35, 40]
    assert {row.life for row in done.rows} == {"ended"}


SPAWNED = """
import sys, torch

def train(rank):
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10 + rank):
        model(torch.ones(4, 16)).sum().backward()
        optimizer.step()
    if rank == 1:
        raise KeyError("mine")

if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        torch.multiprocessing.spawn(train, nprocs=2)
    try:
        raise ValueError("handled")
    except ValueError:  # both go on inside of it
        processes = [torch.multiprocessing.get_context("fork").Process(target=train, args=(rank,)) for rank in (0, 1)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
"""


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_a_process_of_multiprocessing_that_fails_is_not_said_to_have_ended(run, tmp_path, how):
    (tmp_path / "spawned.py").write_text(SPAWNED)
    done = run("spawned.py", how)
    ended = {row.process.steps: (row.life, row.process.error) for row in done.rows}
    assert ended.pop(11) == ("raised", "KeyError"), done.err
    # The parent of `spawn` ends the others when one of them fails: with luck the first has said how it went before.
    assert how == "spawn" or ended == {10: ("ended", None)}


def test_an_exception_that_a_shell_showed_before_the_last_step_did_not_end_the_run(run, tmp_path):
    (tmp_path / "cells.py").write_text(
        "import runpy, sys, torch\n"
        "sys.last_value = ValueError('of an earlier cell')\n"
        "sys.argv = ['steady.py', '--steps', '40']\n"
        f"runpy.run_path({str(SCRIPTS / 'steady.py')!r}, run_name='__main__')\n"
    )
    assert run("cells.py").row.life == "ended"


RANKS = """
import os, time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(50):
    model(torch.ones(4, 16)).sum().backward()
    optimizer.step()
    time.sleep(0.002)
dist.destroy_process_group()
"""


def test_two_ranks_have_a_state_each_and_the_first_alone_prints(run, tmp_path):
    (tmp_path / "ranks.py").write_text(RANKS)
    done = run(
        "-m", "torch.distributed.run", "--nproc-per-node", "2", "ranks.py", variables={"PYTHONWARNINGS": "ignore"}
    )
    assert done.code == 0, done.err
    assert [(row.process.rank, row.process.world_size, row.life) for row in done.rows] == [
        (0, 2, "ended"),
        (1, 2, "ended"),
    ]
    assert len({row.folder for row in done.rows}) == 1
    assert len(re.findall("^autotune: step 20:", done.err, re.MULTILINE)) == 1


def test_a_bug_of_ours_ends_the_watch_and_not_the_run(run, tmp_path):
    """Whatever fails inside a window: here the split of its phases."""
    (tmp_path / "broken.py").write_text(
        "import runpy, sys, torch\n"
        "from _autotune_probe.watch import phases\n"
        "phases.by_step = lambda *args: 1 / 0\n"
        "sys.argv = ['steady.py', '--steps', '40']\n"
        f"runpy.run_path({str(SCRIPTS / 'steady.py')!r}, run_name='__main__')\n"
    )
    done = run("broken.py")
    assert done.code == 0
    assert done.out.startswith("loss ")
    assert "autotune: internal error, this run is no longer watched: ZeroDivisionError" in done.err
    assert done.row.process.failure == "ZeroDivisionError: division by zero"
    assert done.row.process.steps == 40


def test_the_folder_that_cannot_be_written_stops_nothing(run, tmp_path):
    (tmp_path / ".autotune").write_text("a file")
    prometheus = {"AUTOTUNE_WATCH_PROMETHEUS": str(tmp_path / "missing" / "train.prom")}
    done = run(SCRIPTS / "steady.py", "--steps", "60", variables=prometheus)
    assert done.code == 0
    assert "the state of this run cannot be written" in done.err
    assert done.err.count("nothing is written for Prometheus: No such file or directory") == 1
    assert "nothing has drifted" in done.err


def test_zero_is_off(run):
    done = run("-c", "import sys; print('_autotune_probe' in sys.modules)", variables={"AUTOTUNE_WATCH": "0"})
    assert done.out == "False\n"


def test_torch_and_the_script_are_as_they_were_between_windows(run, tmp_path):
    """No hook stays but the two of the optimizer's step: no class and no function of torch is another one. Nothing is
    printed where nothing is to be."""
    script = SCRIPTS / "steady.py"
    (tmp_path / "looks.py").write_text(
        "import gc, runpy, sys, threading, torch\n"
        "from torch.utils.data import DataLoader\n"
        "def seen():\n"
        "    return (torch.nn.Module.__call__, torch.nn.Module.train, torch.autograd.backward, DataLoader.__iter__,\n"
        "            torch.save, gc.collect)\n"
        "before = seen()\n"
        f"sys.argv = ['steady.py', '--steps', '60']\n"
        f"try:\n    runpy.run_path({str(script)!r}, run_name='__main__')\nexcept SystemExit:\n    pass\n"
        "assert seen() == before\n"
        "print(threading.active_count())\n"
    )
    done = run("looks.py", variables={"AUTOTUNE_WATCH": "quiet"})
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "1"
    assert len(done.row.process.windows) == 1


def test_the_line_of_the_wheel_starts_it_in_an_environment_and_costs_nothing_where_it_is_not_asked_for(
    environ, tmp_path
):
    """The .pth file as it is installed, beside the package, in a virtual environment."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    package = Path(model.__file__).parents[1]
    (site / "autotune").symlink_to(package)
    for name in ("autotune_watch.pth", "_autotune_watch.py"):
        (site / name).write_text((package / "probe" / "watch" / name).read_text())
    (site / "z_torch.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")) + "\n")
    variables = {name: value for name, value in environ().items() if name not in ("PYTHONPATH", "AUTOTUNE_WATCH")}
    python = venv / "bin" / "python"
    names = "import sys; print(sorted(name for name in sys.modules if 'autotune' in name))"
    silent = subprocess.run(
        [python, "-c", names], env=variables, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (silent.stdout, silent.stderr) == ("[]\n", "")
    for more in (
        {"AUTOTUNE_WATCH": ""},
        {"AUTOTUNE_WATCH": "0"},
        {"AUTOTUNE_WATCH": "1", "AUTOTUNE_REQUEST": "measured"},
    ):
        words = [python, "-c", "import sys; print('_autotune_probe' in sys.modules)"]
        off = subprocess.run(words, env={**variables, **more}, cwd=tmp_path, capture_output=True, text=True)
        assert (off.stdout, off.stderr) == ("False\n", "")
    script = [python, SCRIPTS / "steady.py", "--steps", "40"]
    on = subprocess.run(script, env={**variables, "AUTOTUNE_WATCH": "1"}, cwd=tmp_path, capture_output=True, text=True)
    assert (on.returncode, on.stdout[:5]) == (0, "loss "), on.stderr
    assert "autotune: step 20:" in on.stderr
    assert len(states(tmp_path)) == 1


COMPILED = """
import time, torch
from torch._dynamo.utils import counters
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(140):
    compiled(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    if step == 10:
        before = counters["stats"]["unique_graphs"]
print(before, counters["stats"]["unique_graphs"])
"""


def test_windows_make_torch_compile_compile_nothing_again(run, tmp_path):
    (tmp_path / "compiled.py").write_text(COMPILED)
    done = run("compiled.py", at=[20, 40, 60, 80, 100, 120])
    assert done.out == "1 1\n", done.err
    assert len(done.row.process.windows) == 6


def test_every_state_reads_back_as_the_record_that_describes_it():
    assert STATE["title"] == "autotune state of a watched process"
    assert set(STATE["properties"]) == set(WatchedProcess.__struct_fields__)
