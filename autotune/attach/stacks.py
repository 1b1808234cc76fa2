"""Stack samples of a process by a program that looks into it: py-spy, or Python 3.15's own sampler.

The frames of a stack tell its phase: torch's functions, and the functions that catalogue/frameworks/ names for
evaluations, saves and logs. The rule for traces (trace/frames.py) tells the user's files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from autotune.attach import access
from autotune.attach.target import ENDED, Target, has_ended
from autotune.catalogue.frameworks import hooks
from autotune.machine.other_process import is_interpreter
from autotune.model.attached import StackLine, Stacks, Tier
from autotune.trace.frames import is_user_file

SECONDS, RATE = 5, 50
PATIENCE_S = 30.0
"""Beyond the time that is asked for, until a program that hangs is ended."""

MOST_LINES = 10
OWN_SAMPLER = (3, 15)

PYTHONS_OWN = "Python's own sampler"

_FRAME = re.compile(r"(?P<function>.*?) \((?P<file>.*?)(?::(?P<line>\d+))?\)")
_THREAD = re.compile(r"thread \((?P<tid>\d+|0x[0-9a-fA-F]+)\)(?:: .*)?")
_COLLAPSED = re.compile(r"(?P<name>[^:]*):(?P<function>.*):(?P<line>\d+)")

OF_TORCH = {
    ("torch/utils/data/dataloader.py", "__next__"): "data_wait",
    ("torch/utils/data/dataloader.py", "__iter__"): "data_wait",
    ("torch/_tensor.py", "backward"): "backward",
    ("torch/autograd/__init__.py", "backward"): "backward",
    ("torch/optim/optimizer.py", "wrapper"): "optimizer",
    ("torch/nn/modules/module.py", "_call_impl"): "forward",
    ("torch/distributed/c10d_logger.py", "wrapper"): "communication",
    ("torch/serialization.py", "save"): "checkpoint",
}
"""torch's own functions around each phase, as the probe's hooks time them."""


class Frame(Struct, frozen=True):
    """A frame of Python: its file as the process names it, 0 for an unknown line."""

    file: str
    line: int
    function: str


Samples = dict[int, Counter[tuple[Frame, ...]]]
"""Stacks of each thread, the outermost frame first, with how often they were seen."""


def take(target: Target, seconds: float) -> tuple[Stacks | None, Tier]:
    """The samples of the training thread, and what the report says of this tier."""
    why, to_do = access.why_not(target)
    if why:
        return None, Tier("stacks", "refused", why, to_do)
    program = _program(target)
    if program is None:
        return None, Tier("stacks", "refused", "py-spy is not installed", "Install it: pip install py-spy")
    name, words = program
    if has_ended(target):
        return None, Tier("stacks", "refused", ENDED)
    asked = max(1, min(SECONDS, round(seconds)))
    try:
        samples = _by_python(words, target, asked) if name == PYTHONS_OWN else _by_py_spy(words, target, asked)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return None, Tier("stacks", "refused", f"{name} failed: {error}")
    found = summary(samples, target, name)
    if found is None:
        return None, Tier("stacks", "refused", f"{name} saw no frame of Python in it")
    return found, Tier("stacks", "used", f"{found.samples} samples by {name}")


def _program(target: Target) -> tuple[str, list[str]] | None:
    """py-spy of PATH or of autotune's environment, else the process's own Python where that has a sampler."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    spy = shutil.which("py-spy", path=path)
    if spy is not None:
        return "py-spy", [spy]
    about, exe = target.about, target.about.exe or ""
    is_ours = target.is_own and about.same_files is True and is_interpreter(exe) and os.access(exe, os.X_OK)
    if is_ours and (about.python or (0, 0)) >= OWN_SAMPLER:
        # -I and a folder of our own, so that Python does not import a project's `profiling/`.
        return PYTHONS_OWN, [exe, "-I", "-m", "profiling.sampling"]
    return None


def _by_py_spy(words: Sequence[str], target: Target, seconds: int) -> Samples:
    """Without pausing the process: a torn stack now and then is better than a training that waits."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "raw"
        options = ["--format", "raw", "--idle", "--threads", "--full-filenames", "--nonblocking"]
        _run([*words, "record", "--pid", str(target.pid), *options, *_asked(seconds), "-o", str(file)], seconds, None)
        return of_py_spy(file.read_text(encoding="utf-8", errors="replace"))


def _by_python(words: Sequence[str], target: Target, seconds: int) -> Samples:
    """One recording, read out twice: as stacks, which name files without their folders, and as frames, which do."""
    with tempfile.TemporaryDirectory() as folder:
        record, stacks, frames = (str(Path(folder) / name) for name in ("record", "stacks", "frames"))
        options = ["--binary", "--all-threads", *_asked(seconds), "-o", record, str(target.pid)]
        _run([*words, "attach", *options], seconds, folder)
        _run([*words, "replay", "--collapsed", "-o", stacks, record], 0, folder)
        _run([*words, "replay", "--jsonl", "-o", frames, record], 0, folder)
        names = files_of_frames(Path(frames).read_text(encoding="utf-8", errors="replace"))
        return of_python(Path(stacks).read_text(encoding="utf-8", errors="replace"), names)


def _asked(seconds: int) -> list[str]:
    """Both programs call them the same."""
    return ["-d", str(seconds), "-r", str(RATE)]


def _run(words: Sequence[str], seconds: float, cwd: str | None) -> None:
    """Raises ValueError with the last line of what a program that failed has said."""
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds + PATIENCE_S,
        cwd=cwd,
        check=False,
    )
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise ValueError(said[-1].strip() if said else f"exit code {done.returncode}")


def of_py_spy(text: str) -> Samples:
    """`py-spy record --format raw --threads`, each stack a line: "thread (7): MainThread;main (/a/b.py:3);... 12"."""
    found: Samples = {}
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        thread, *names = stack.split(";")
        named = _THREAD.fullmatch(thread)
        if named is None or not count.isdecimal():
            continue
        frames = [_FRAME.fullmatch(name) for name in names]
        key = tuple(Frame(one["file"], int(one["line"] or 0), one["function"]) for one in frames if one is not None)
        found.setdefault(int(named["tid"], 0), Counter())[key] += int(count)
    return found


def of_python(text: str, files: Mapping[tuple[str, str, int], str]) -> Samples:
    """`profiling.sampling --collapsed`: "tid:7;b.py:main:3;... 12"; `files` has the whole path of a frame."""
    found: Samples = {}
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        thread, *names = stack.split(";")
        tid = thread.removeprefix("tid:")
        if not tid.isdecimal() or not count.isdecimal():
            continue
        frames = [_COLLAPSED.fullmatch(name) for name in names]
        places = [(one["name"], one["function"], int(one["line"])) for one in frames if one is not None]
        key = tuple(Frame(files.get(place, place[0]), place[2], place[1]) for place in places)
        found.setdefault(int(tid), Counter())[key] += int(count)
    return found


def files_of_frames(text: str) -> dict[tuple[str, str, int], str]:
    """The path of each frame of `profiling.sampling --jsonl`, by the name of its file, its function and line."""
    strings: dict[int, str] = {}
    found = {}
    for row in map(json.loads, text.splitlines()):
        if row.get("type") == "string_table":
            strings |= {one["str_id"]: one["value"] for one in row["strings"]}
        elif row.get("type") == "frame_table":
            for one in row["frames"]:
                path = strings[one["path_str_id"]]
                found[os.path.basename(path), strings[one["func_str_id"]], one["line"]] = path  # noqa: PTH119 (as it does)
    return found


def summary(samples: Samples, target: Target, by: str) -> Stacks | None:
    """The training thread's phases and lines: the thread that was seen in phases most, else the main one."""
    stacks = training_thread(samples, target.pid)
    total = sum(stacks.values())
    if not total:
        return None
    phases: Counter[str] = Counter()
    lines: Counter[tuple[Frame, str]] = Counter()
    for stack, count in stacks.items():
        now = phase(stack)
        phases[now] += count
        place = next((frame for frame in reversed(stack) if is_user_file(frame.file)), None)
        if place is not None:
            lines[place, now] += count
    folder = f"{target.about.cwd}/" if target.about.cwd else ""
    named = [
        StackLine(frame.file.removeprefix(folder), frame.line, frame.function, now, count / total)
        for (frame, now), count in lines.most_common(MOST_LINES)
    ]
    return Stacks(by, total, {name: count / total for name, count in phases.most_common()}, tuple(named))


def training_thread(samples: Samples, pid: int) -> Counter[tuple[Frame, ...]]:
    """The stacks of the thread that trains."""

    def in_phases(tid: int) -> int:
        return sum(count for stack, count in samples[tid].items() if phase(stack) != "other")

    best = max(samples, key=in_phases, default=pid)
    return samples.get(best if samples and in_phases(best) else pid, Counter())


def phase(stack: Sequence[Frame]) -> str:
    """The phase of a stack, the outermost frame first. What an evaluation, a save or a loader does is that; a forward
    within a backward is recomputation; else the innermost frame that is of one counts."""
    found = [one for frame in stack if (one := _phase_of(frame)) is not None]
    for certain in ("checkpoint", "evaluation", "data_wait"):
        if certain in found:
            return certain
    if found and found[-1] == "forward" and "backward" in found:
        return "recompute"
    return found[-1] if found else "other"


def _phase_of(frame: Frame) -> str | None:
    function = frame.function.rpartition(".")[2]
    return next(
        (kind for (file, name), kind in _marks().items() if name == function and frame.file.endswith(f"/{file}")), None
    )


@cache
def _marks() -> Mapping[tuple[str, str], str]:
    """torch's functions, and those of the frameworks that evaluate, save and log."""
    return {**dict(_of_frameworks()), **OF_TORCH}


def _of_frameworks() -> Iterator[tuple[tuple[str, str], str]]:
    for hook in hooks():
        for name, kind in hook.times.items():
            yield (f"{hook.module.replace('.', '/')}.py", name), kind
