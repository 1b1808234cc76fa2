"""What the benchmarks share: running the real command line, intervals of paired ratios, and tables."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(__file__).resolve().parent / "scripts"
DRAWS = 10_000
SEED = 20_251
GRACE_S = 10.0

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that ended: exit code (None: stopped at the time limit), seconds of wall and CPU, its output.

    `cpu_s` is user and system time of the process and of all descendants that were waited for.
    """

    code: int | None
    wall_s: float
    cpu_s: float
    out: str
    err: str


def run(argv: Sequence[str], *, cwd: Path, environ: Mapping[str, str], limit_s: float) -> Ended:
    """Run a command in a process group of its own, stdin closed; at the limit the whole group is ended."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = time.monotonic()
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=_default_signals,
        )
        code, cpu_s = _wait(process, start + limit_s)
        wall_s = time.monotonic() - start
        for file in (out, err):
            file.seek(0)
        return Ended(code, wall_s, cpu_s, out.read(), err.read())


def _default_signals() -> None:
    # A shell that starts a job in the background leaves SIGINT ignored, and children would inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> tuple[int | None, float]:
    stopped: signal.Signals | None = None
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            # Popen must not wait for a process that is gone already.
            process.returncode = os.waitstatus_to_exitcode(status)
            return None if stopped else process.returncode, usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline:
            stopped = signal.SIGKILL if stopped else signal.SIGTERM
            os.killpg(process.pid, stopped)
            deadline = time.monotonic() + GRACE_S
        time.sleep(0.02)


def diagnose(
    command: Sequence[str], options: Sequence[str], *, cwd: Path, environ: Mapping[str, str], limit_s: float
) -> tuple[Json | None, Ended]:
    """`autotune diagnose --format json` of this checkout; (None, the ended process) when it printed no object."""
    argv = [sys.executable, "-m", "autotune", "diagnose", "--format", "json", "--quiet", *options, "--", *command]
    path = os.pathsep.join(filter(None, [str(ROOT), environ.get("PYTHONPATH", "")]))
    ended = run(argv, cwd=cwd, environ={**environ, "PYTHONPATH": path}, limit_s=limit_s)
    try:
        document = json.loads(ended.out)
    except ValueError:
        return None, ended
    return document, ended


def recordings(document: Json) -> list[Json]:
    """The Recordings of a diagnosis that reached a window, as plain JSON."""
    files = sorted(Path(document["run"]["folder"]).glob("recording-*.json"))
    rows = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [row for row in rows if row["window"] is not None]


def failure(ended: Ended) -> str:
    """One line that says why a run gave no result."""
    if ended.code is None:
        return f"stopped after {ended.wall_s:.0f} s"
    lines = [line for line in ended.err.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("autotune: ")]
    return f"exit {ended.code}: {(own or lines or ['no message'])[-1]}"


def interval(
    values: Sequence[float], statistic: Callable[[Sequence[float]], float] = statistics.median, level: float = 0.95
) -> tuple[float, float, float]:
    """(statistic, low, high) of `values` by the percentile bootstrap with a fixed seed."""
    draw = random.Random(SEED)
    drawn = sorted(statistic(draw.choices(values, k=len(values))) for _ in range(DRAWS))
    edge = (1 - level) / 2
    return statistic(values), drawn[int(edge * DRAWS)], drawn[int((1 - edge) * DRAWS) - 1]


def kept(out: Path | None, name: str, measure: Callable[[], Json], *, again: bool = False) -> Json:
    """What `out` keeps under this name; else, or `again`, what is measured now, kept at once."""
    path = out / f"{name}.json" if out else None
    if path is not None and path.exists() and not again:
        return json.loads(path.read_text(encoding="utf-8"))
    print(f"benchmark: {name}", file=sys.stderr, flush=True)
    result = measure()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".part").write_text(json.dumps(result, indent=1), encoding="utf-8")
        path.with_suffix(".part").replace(path)
    return result


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def show(document: Json, text: str, as_json: bool) -> None:
    """Print the result once: as an object or as text."""
    print(json.dumps(document, indent=1) if as_json else text)
