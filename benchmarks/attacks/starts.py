"""Odd ways to start, to go on and to end: nothing may be left behind, and no real file may change.

Each is a script under `diagnose`, with the kernel layer and with hooks. Afterwards no process runs in its folder, no
scratch folder of these runs lies anywhere, the files are as they were, and it ended long before the limit of a start-up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.attacks.case import Case

TITLE = "odd starts and ends under diagnose"

LIMIT_S = 120.0
PATIENCE_S = 20.0

TRAIN = """
import torch
def train(steps=100_000):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if step % 1000 == 0:
            torch.save(model.state_dict(), "model.pt")
"""
HEAD = "import os, sys, signal, subprocess, time\n"
MAIN = "if __name__ == '__main__':\n    train()\n"

DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {inside}
        while True:
            time.sleep(0.2)
            open("daemon.txt", "a").write("x")
    os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class Start:
    """`words` come behind `autotune diagnose`; `sent` are signals to autotune itself, after so many seconds."""

    text: str
    words: tuple[str, ...] = ("train.py",)
    sent: tuple[tuple[float, signal.Signals], ...] = ()


def _workers(how: str) -> str:
    return f"""
from torch.utils.data import DataLoader, TensorDataset
def main():
    data = DataLoader(TensorDataset(torch.randn(4000, 4)), batch_size=4, num_workers=2, multiprocessing_context="{how}",
                      persistent_workers=True)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (batch,) in data:
        model(batch).sum().backward()
        optimizer.step()
if __name__ == "__main__":
    main()
"""


def _children(how: str) -> str:
    return f"""
import multiprocessing
def child():
    open("child.txt", "w").write("x")
    time.sleep(600)
if __name__ == "__main__":
    for _ in range(2):
        multiprocessing.get_context("{how}").Process(target=child, daemon=False).start()
    train()
"""


AGAIN = "if 'again' not in sys.argv:\n    os.execv(sys.executable, [sys.executable, {flags} __file__, 'again'])\n"
KILLED = (2.0, 6.0, 9.0)

STARTS = {
    "exec of itself": Start(AGAIN.format(flags="") + TRAIN + MAIN),
    "exec of itself with -I": Start(AGAIN.format(flags="'-I',") + TRAIN + MAIN),
    "exec of itself with -E -s": Start(AGAIN.format(flags="'-E', '-s',") + TRAIN + MAIN),
    "exec with -I after torch": Start("import torch\n" + AGAIN.format(flags="'-I',") + TRAIN + MAIN),
    "exec with an empty environment": Start(
        "if 'again' not in sys.argv:\n    os.execve(sys.executable, [sys.executable, __file__, 'again'], {})\n" + TRAIN + MAIN
    ),
    "exec by ctypes": Start(
        "import ctypes\nif 'again' not in sys.argv:\n    words = [sys.executable, '-I', __file__, 'again']\n"
        "    array = (ctypes.c_char_p * 5)(*[w.encode() for w in words], None)\n"
        "    ctypes.CDLL(None).execv(sys.executable.encode(), array)\n" + TRAIN + MAIN
    ),
    "exec of a shell": Start(
        "if 'again' not in sys.argv:\n    os.execv('/bin/sh', ['sh', '-c', f'{sys.executable} {__file__} again; echo end'])\n"
        + TRAIN + MAIN
    ),
    "a child with -I that trains": Start(
        "if 'again' not in sys.argv:\n    sys.exit(subprocess.call([sys.executable, '-I', __file__, 'again']))\n" + TRAIN + MAIN
    ),
    "a child with an empty environment that trains": Start(
        "if 'again' not in sys.argv:\n    sys.exit(subprocess.call([sys.executable, __file__, 'again'], env={}))\n" + TRAIN + MAIN
    ),
    "a daemon": Start(DAEMON.format(inside="pass") + TRAIN + MAIN),
    "a daemon with an empty environment": Start(
        DAEMON.format(inside="os.execve('/bin/sh', ['sh', '-c', 'while true; do sleep 1; done'], {})") + TRAIN + MAIN
    ),
    "a daemon that ignores signals": Start(
        DAEMON.format(inside="[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]") + TRAIN + MAIN
    ),
    "a daemon that forks again and again": Start(
        DAEMON.format(inside="[os._exit(0) for _ in range(60) if time.sleep(0.05) or os.fork()]") + TRAIN + MAIN
    ),
    "a daemon in a group of its own": Start(DAEMON.format(inside="os.setpgid(0, 0) if os.getsid(0) != os.getpid() else 0") + TRAIN + MAIN),
    "a daemon of a script that ends": Start(DAEMON.format(inside="pass") + TRAIN + "train(20)\n"),
    "a daemon of a script that fails": Start(DAEMON.format(inside="pass") + "raise SystemExit(3)\n"),
    "nohup in a shell": Start("os.system('nohup sleep 600 >/dev/null 2>&1 &')\n" + TRAIN + MAIN),
    "setsid in a shell": Start("os.system('setsid sleep 600 &')\n" + TRAIN + MAIN),
    "a stopped child": Start(
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\nchild.send_signal(signal.SIGSTOP)\n" + TRAIN + MAIN
    ),
    "children by fork": Start(TRAIN + _children("fork")),
    "children by spawn": Start(TRAIN + _children("spawn")),
    "children by forkserver": Start(TRAIN + _children("forkserver")),
    "workers by fork": Start(TRAIN + _workers("fork")),
    "workers by spawn": Start(TRAIN + _workers("spawn")),
    "workers by forkserver": Start(TRAIN + _workers("forkserver")),
    "mp.spawn of trainings": Start(
        TRAIN + "def rank(index):\n    train()\nif __name__ == '__main__':\n    torch.multiprocessing.spawn(rank, nprocs=2)\n"
    ),
    "deaf to SIGTERM and SIGINT": Start("[signal.signal(n, signal.SIG_IGN) for n in (2, 15)]\n" + TRAIN + MAIN),
    "kills itself": Start(TRAIN + "train(20)\nos.kill(os.getpid(), signal.SIGKILL)\n"),
    "aborts": Start(TRAIN + "train(20)\nos.abort()\n"),
    "os._exit": Start(TRAIN + "train(20)\nos._exit(3)\n"),
    "closes all descriptors": Start("os.closerange(3, 4096)\n" + TRAIN + MAIN),
    "a new title": Start(
        "import ctypes\nctypes.CDLL(None).prctl(15, b'trainer', 0, 0, 0)\n" + TRAIN + MAIN
    ),
    "no Python at all": Start("", ("--", "sh", "-c", "echo x > made.txt; sleep 1")),
    "a shell that goes on": Start(TRAIN + MAIN, ("--", "sh", "-c", "python train.py; touch after.txt; sleep 600")),
    "python -I": Start(TRAIN + MAIN, ("--", "python", "-I", "train.py")),
    "env -i": Start(TRAIN + MAIN, ("--", "env", "-i", sys.executable, "train.py")),
    "another PYTHONPATH": Start(TRAIN + MAIN, ("--", "sh", "-c", "PYTHONPATH=. python train.py")),
    "torchrun": Start(TRAIN + MAIN, ("--", "torchrun", "--nproc-per-node", "2", "train.py")),
    **{
        f"autotune gets {number.name} after {after:g} s": Start(TRAIN + _workers("fork"), sent=((after, number),))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for after in (0.5, *KILLED)
    },
    "autotune gets SIGINT twice": Start(TRAIN + MAIN, sent=((4.0, signal.SIGINT), (0.05, signal.SIGINT))),
    **{f"autotune is killed after {after:g} s": Start(TRAIN + _workers("fork"), sent=((after, signal.SIGKILL),)) for after in KILLED},
}  # fmt: skip


def cases(scratch: Path) -> Iterator[Case]:
    """Every start, under both layers."""
    for layer in ("kernel", "hooks"):
        for number, (name, start) in enumerate(STARTS.items()):
            if layer == "hooks" and any(sent is signal.SIGKILL for _, sent in start.sent):
                continue  # the next command deletes what is left; processes end when their parent's folder is gone
            yield _tried(f"{layer}: {name}", start, layer, scratch / layer / str(number))


def _tried(name: str, start: Start, layer: str, folder: Path) -> Case:
    project, state = folder / "project", folder / "state"
    project.mkdir(parents=True)
    state.mkdir()
    (project / "train.py").write_text(HEAD + start.text)
    (project / "kept.txt").write_text("kept")
    before = _files(project)
    began = time.monotonic()
    code, output = _diagnose(start, layer, project, state)
    took = time.monotonic() - began
    left = _left_processes(folder)
    if any(sent is signal.SIGKILL for _, sent in start.sent):
        _clean(project, state)
    failures = [
        f"took {took:.0f} s" if took > LIMIT_S else "",
        f"left {left}" if left else "",
        f"scratch {scratch}" if (scratch := _scratch(state)) else "",
        f"changed {changed}" if (changed := _changed(before, _files(project), output, layer)) else "",
        "a traceback of ours" if "internal error" in output else "",
    ]
    return Case(name, "; ".join(filter(None, failures)), f"exit {code}, {took:.0f} s")


def _diagnose(start: Start, layer: str, project: Path, state: Path) -> tuple[int, str]:
    environ = {**os.environ, "HOME": str(state), "XDG_STATE_HOME": str(state), "XDG_CACHE_HOME": str(state / "cache")}
    environ |= {"AUTOTUNE_ISOLATION": "hooks" if layer == "hooks" else "", "OMP_NUM_THREADS": "1"}
    environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = [
        sys.executable,
        "-m",
        "autotune",
        "diagnose",
        "--no-lock",
        "--format",
        "json",
        "--steps",
        "20",
        *start.words,
    ]
    with (state / "output").open("w+b") as file:
        child = subprocess.Popen(
            words, cwd=project, env=environ, stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=_hear
        )
        for after, number in start.sent:
            time.sleep(after)
            child.send_signal(number)
        try:
            code = child.wait(LIMIT_S + 60)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
    return code, (state / "output").read_text("utf-8", "replace")


def _hear() -> None:
    """A shell starts what is in the background deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _left_processes(folder: Path) -> list[str]:
    """Processes that still run there; those that are being ended get a moment."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        left = []
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and Path(process.cwd()).is_relative_to(folder):
                    left.append(" ".join(process.cmdline()[:4]))
            except (psutil.Error, OSError):
                continue
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def _scratch(state: Path) -> list[str]:
    """Scratch folders of the runs that are registered in this state folder: others may measure meanwhile."""
    runs = [
        line.split()[0] for file in state.glob("autotune/projects/*/runs") for line in file.read_text().splitlines()
    ]
    places = ("/", "/var/tmp", "/tmp", str(Path.home()), str(state))
    found = (Path(place) / f".autotune-scratch-{run}" for place in places for run in runs)
    return [str(path) for path in found if path.exists()]


def _clean(project: Path, state: Path) -> None:
    """What a killed autotune left is deleted by the next measurement of that project."""
    subprocess.run(
        [sys.executable, "-c", "import sys; from pathlib import Path; from autotune.collect import stale_runs; "
         "stale_runs.remove_leftovers(Path(sys.argv[1]))", str(project)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "XDG_STATE_HOME": str(state)}, check=False,
    )  # fmt: skip


def _files(project: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in project.iterdir() if path.is_file()}


def _changed(before: dict[str, bytes], after: dict[str, bytes], output: str, layer: str) -> list[str]:
    """Real files that changed; with hooks only those that the report does not name."""
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    if layer == "kernel":
        return changed
    try:
        escaped = json.loads(output[output.index('{"') :].splitlines()[0])["run"]["escaped"]
    except (ValueError, KeyError, IndexError):
        return [name for name in changed if name not in output]
    return [name for name in changed if name not in escaped]
