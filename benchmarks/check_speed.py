"""How long `autotune check` takes: one script from a cold start, and a repository of 1,000 files of which 50 train.

    python benchmarks/check_speed.py [--repeats 15]

CPU seconds of the process, user and system. A cold start is a new process whose files the system has read before; the
ratio is paired with `python -c "import click"`, run in turn. Intervals are of the median, 95 %.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from measuring import ROOT, Ended, failure, interval, run, table

SCRIPTS = sorted((ROOT / "fixtures" / "scripts").glob("*.py"))
NUM_FILES, NUM_TRAINING = 1_000, 50
LIMIT_S = 120.0

AIM_RATIO, AIM_WALL_S, AIM_CPU_MS = 1.8, 2.0, 25.0

LIBRARY = '''"""A module of a project: {number}."""

import json


def load(path):
    """What a file holds."""
    with open(path) as file:
        return json.load(file)
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, help="runs of each command")
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        one, many, plain = (Path(folder, name) for name in ("one", "many", "plain"))
        _project(one, 1, 1)
        _project(many, NUM_FILES, NUM_TRAINING)
        _project(plain, NUM_FILES - NUM_TRAINING, 0)
        print(table(("quantity", "median", "95 %", "aim"), list(_rows(one, many, plain, repeats))))


def _rows(one: Path, many: Path, plain: Path, repeats: int) -> Iterator[tuple[str, str, str, str]]:
    starts = [(_click(one).cpu_s, _check(one).cpu_s) for _ in range(repeats)]
    click, check = zip(*starts, strict=True)
    yield _row("python -c 'import click', CPU ms", [1000 * value for value in click], "")
    yield _row("autotune check of one script, CPU ms", [1000 * value for value in check], "")
    ratios = [checked / clicked for clicked, checked in starts]
    yield _row("ratio of both", ratios, f"<= {AIM_RATIO:g}")
    runs = [(_check(many), _check(plain)) for _ in range(max(3, repeats // 3))]
    walls = [both[0].wall_s for both in runs]
    yield _row(f"{NUM_FILES} files, {NUM_TRAINING} train: wall s", walls, f"<= {AIM_WALL_S:g}")
    each = [1000 * (both[0].cpu_s - both[1].cpu_s) / NUM_TRAINING for both in runs]
    yield _row("CPU ms of one training file", each, f"<= {AIM_CPU_MS:g}")


def _row(name: str, values: Sequence[float], aim: str) -> tuple[str, str, str, str]:
    middle, low, high = interval(values, statistics.median)
    return name, f"{middle:.3g}", f"{low:.3g} to {high:.3g}", aim


def _check(folder: Path) -> Ended:
    return _run([sys.executable, "-m", "autotune", "check", ".", "--fail-on", "never"], folder)


def _click(folder: Path) -> Ended:
    return _run([sys.executable, "-c", "import click"], folder)


def _run(argv: Sequence[str], folder: Path) -> Ended:
    ended = run(argv, cwd=folder, environ={**os.environ, "PYTHONPATH": str(ROOT)}, limit_s=LIMIT_S)
    if ended.code != 0:
        raise SystemExit(failure(ended))
    return ended


def _project(folder: Path, num_files: int, num_training: int) -> None:
    """`num_files` Python files in folders of 50; the first `num_training` are the fixtures in turn."""
    for number in range(num_files):
        place = folder / f"part{number // 50}"
        place.mkdir(parents=True, exist_ok=True)
        text = SCRIPTS[number % len(SCRIPTS)].read_text() if number < num_training else LIBRARY.format(number=number)
        (place / f"file{number}.py").write_text(text)


if __name__ == "__main__":
    main()
