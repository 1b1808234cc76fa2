"""How long `autotune check` takes: one script from a cold start, and a repository of 1,000 files of which 50 train.

    python benchmarks/check_speed.py [--repeats 15]
    python benchmarks/check_speed.py FOLDER... [--before CHECKOUT]     # the slowest ten of these, read once and again


CPU seconds of the process, user and system. A cold start is a new process whose files the system has read before; the
ratio is paired with `python -c "import click"`, run in turn. Intervals are of the median, 95 %.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from measuring import ROOT, Ended, failure, interval, run, table

SCRIPTS = sorted((ROOT / "fixtures" / "scripts").glob("*.py"))
NUM_FILES, NUM_TRAINING = 1_000, 50
LIMIT_S = 1_200.0
SLOWEST = 10

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
    parser.add_argument("trees", nargs="*", type=Path, help="folders to check instead")
    parser.add_argument("--before", type=Path, help="a checkout of another version, which reads them too")
    given = parser.parse_args()
    repeats = given.repeats
    if given.trees:
        print(_slowest(given.trees, given.before))
        return
    with tempfile.TemporaryDirectory() as folder:
        one, many, plain = (Path(folder, name) for name in ("one", "many", "plain"))
        _project(one, 1, 1)
        _project(many, NUM_FILES, NUM_TRAINING)
        _project(plain, NUM_FILES - NUM_TRAINING, 0)
        print(table(("quantity", "median", "95 %", "aim"), list(_rows(one, many, plain, repeats))))


def _slowest(trees: Sequence[Path], before: Path | None) -> str:
    """CPU seconds of each tree without anything in the cache but rules and vocabulary, and then again."""
    rows = []
    for tree in trees:
        times = [*([_twice(tree, before)[0]] if before is not None else []), *_twice(tree, ROOT)]
        rows.append((tree.name, sum(1 for _ in tree.rglob("*.py")), times))
    rows.sort(key=lambda row: row[2][0].cpu_s, reverse=True)
    names = (*(("before",) if before is not None else ()), "first run", "again")
    printed = [(name, str(num), *(f"{one.cpu_s:.1f}" for one in times)) for name, num, times in rows[:SLOWEST]]
    return table(("tree", "Python files", *(f"{name}, CPU s" for name in names)), printed)


def _twice(tree: Path, checkout: Path) -> tuple[Ended, Ended]:
    with tempfile.TemporaryDirectory() as folder:
        place, cache = Path(folder, "empty"), {"XDG_CACHE_HOME": folder, "PYTHONPATH": str(checkout.resolve())}
        _project(place, 1, 0)
        argv = [sys.executable, "-P", "-m", "autotune", "check", ".", "--fail-on", "never"]
        _run(argv, place, cache)  # rules and vocabulary
        return _run(argv, tree, cache), _run(argv, tree, cache)


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


def _run(argv: Sequence[str], folder: Path, environ: Mapping[str, str] = MappingProxyType({})) -> Ended:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    ended = run(argv, cwd=folder, environ=variables, limit_s=LIMIT_S)
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
