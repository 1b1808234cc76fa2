"""Every shape of project in every way to start it: diagnose, then what apply would write, held against a person's edit.

python benchmarks/ways.py [--shape NAME ...] [--way NAME ...] [--out FOLDER] [--load FILE] [--json]

The cells are those of fixtures/matrix.py, each in a fresh copy of its project. A cell is ok when the diagnosis reports
the expected rule, and `apply --diff --allow altering` shows the expected edit at its line and no other, or prints the
expected command to paste where the value was typed. Shapes whose packages are not installed are not run: tests/matrix
has them. `check` reads each project three times: the folder, the script, and the script with its configs; the places
that they name are compared. With `--out FOLDER` every cell is kept there at once, and a later call goes on where this
one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import measuring

sys.path.insert(0, str(measuring.ROOT / "fixtures"))

import matrix
from matrix import Cell, Expect, Place, Shape, Start

WINDOW = ("--steps", "8", "--warmup", "3", "--no-what-ifs", "--no-lock")
"""Options of diagnose: the findings of these projects need no replay, and no timing is reported."""

LIMIT_S = 240.0
LEFT_OUT = "-"
OK = "ok"


def autotune(words: Sequence[str], place: Place, cwd: Path, shape: Shape) -> measuring.Ended:
    """The command line of this checkout, as the user of the project has it."""
    return measuring.run(
        [sys.executable, "-m", "autotune", *words], cwd=cwd, environ=surroundings(shape, place), limit_s=LIMIT_S
    )


def surroundings(shape: Shape, place: Place) -> dict[str, str]:
    """The user's environment, with this checkout's package, a state of its own, and one thread: CPUs may be shared."""
    known = matrix.environ(shape, place, os.environ)
    path = os.pathsep.join(filter(None, [str(measuring.ROOT), known.get("PYTHONPATH", "")]))
    state = str(place.tools.parent / "state")
    return {**known, "PYTHONPATH": path, "XDG_STATE_HOME": state, "OMP_NUM_THREADS": "1"}


def measure(cell: Cell) -> measuring.Json:
    """The verdict on each expected edit of a cell."""
    with tempfile.TemporaryDirectory(prefix="ways-") as folder:
        place = matrix.lay_out(cell.shape, Path(folder).resolve())
        start = cell.start(place)
        row = {"shape": cell.shape.name, "way": cell.way.name}
        if isinstance(start, str):
            return {**row, "left_out": start}
        document, ended = measuring.diagnose(
            start.words, WINDOW, cwd=start.cwd, environ=surroundings(cell.shape, place), limit_s=LIMIT_S
        )
        verdicts = {
            expect.setting: short(verdict(cell, expect, place, start, document, ended), place)
            for expect in cell.shape.expects
        }
        return {**row, "words": [short(word, place) for word in start.words], "verdicts": verdicts, "s": ended.wall_s}


def verdict(
    cell: Cell, expect: Expect, place: Place, start: Start, document: measuring.Json | None, ended: measuring.Ended
) -> str:
    """OK, or what is not as it has to be."""
    if document is None:
        return f"diagnose: {measuring.failure(ended)}"
    reported = [
        change for one in document["recommendations"] if expect.rule in one["rules"] for change in one["changes"]
    ]
    news = [change["new"] for change in reported if change["setting"] == expect.setting]
    if not news:
        found = sorted({rule for one in document["recommendations"] for rule in one["rules"]})
        return f"diagnose recommends {', '.join(found) or 'nothing'} instead of {expect.rule}"
    if not expect.depends_on_machine and news != [expect.new]:
        return f"diagnose recommends {news[0]}"
    shown = autotune(
        ["apply", "--diff", "--allow", "altering", "--select", expect.setting], place, start.cwd, cell.shape
    )
    if shown.code != 0:
        return f"apply: {measuring.failure(shown)}"
    left = [line for line in shown.out.splitlines() if ": not written, " in line and f" {expect.setting}: " in line]
    if left:
        return f"apply: {left[0].partition(': not written, ')[2]}"
    changed, command = edits(shown.out, place, start), offered(shown.out)
    return matrix.problem(expect, start, place, news[0], changed, command) or OK


def edits(text: str, place: Place, start: Start) -> dict[Path, tuple[list[str], list[str]]]:
    """The lines that a unified diff takes away and adds, by file."""
    found: dict[Path, tuple[list[str], list[str]]] = {}
    taken: list[str] = []
    added: list[str] = []
    for line in text.splitlines():
        if line.startswith("+++ b/"):
            name = line.removeprefix("+++ b/")
            path = next((at / name for at in (place.root, start.cwd, Path("/")) if (at / name).exists()), Path(name))
            taken, added = found.setdefault(path.resolve(), ([], []))
        elif line.startswith("-") and not line.startswith("--- a/"):
            taken.append(line[1:])
        elif line.startswith("+"):
            added.append(line[1:])
    return found


def offered(text: str) -> tuple[str, ...]:
    """The command line that apply prints to start the run with; () where it prints none."""
    lines = text.splitlines()
    at = next((at for at, line in enumerate(lines) if line.endswith("Start it with:")), None)
    return tuple(shlex.split(lines[at + 1])) if at is not None else ()


def short(text: str, place: Place) -> str:
    """Text without the folder that this cell was run in."""
    for folder, name in ((place.root, "PROJECT"), (place.away, "ELSEWHERE"), (place.tools.parent, "TEMPORARY")):
        text = text.replace(str(folder), name)
    return text


def check(shape: Shape) -> measuring.Json:
    """The places that `check` names: in the folder, of the script, and of the script with its configs."""
    with tempfile.TemporaryDirectory(prefix="ways-") as folder:
        place = matrix.lay_out(shape, Path(folder).resolve())
        asked = {
            "folder": ["."],
            "script": [shape.script],
            "script and config": [shape.script, *shape.configs],
        }
        found = {
            name: places(
                autotune(["check", *words, "--format", "json", "--fail-on", "never"], place, place.root, shape)
            )
            for name, words in asked.items()
        }
    everything = sorted({one for each in found.values() for one in each})
    lacking = {name: [one for one in everything if one not in each] for name, each in found.items()}
    return {"shape": shape.name, "asked": asked, "places": everything, "lacking": lacking}


def places(ended: measuring.Ended) -> list[str]:
    """ "DL001 config.yaml:14" of each finding."""
    document = json.loads(ended.out)
    spots = [(one["rule"], one["location"]) for one in document["findings"]]
    return sorted({f"{rule} {at['file']}:{at['line']}" if at else rule for rule, at in spots})


def table(rows: Sequence[measuring.Json]) -> str:
    """Ways by shapes, a letter for each cause of a wrong cell, and what the letters mean."""
    verdicts = {
        (row["shape"], row["way"], setting): cause(text)
        for row in rows
        for setting, text in row.get("verdicts", {}).items()
    }
    wrong = Counter(text for text in verdicts.values() if text != OK)
    letters = {text: letter(at) for at, (text, _) in enumerate(wrong.most_common())}
    columns = list(dict.fromkeys((shape, setting) for shape, _, setting in verdicts))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    body = [[way, *(mark(verdicts.get((shape, way, setting)), letters) for shape, setting in columns)] for way in ways]
    grid = measuring.table(["way", *(f"{shape} {setting}" for shape, setting in columns)], body)
    meaning = [f"{letters[text]}  {count} x {text}" for text, count in wrong.most_common()]
    left = Counter((row["way"], row["left_out"]) for row in rows if "left_out" in row)
    reasons = [f"-  {count} x {way}: {why}" for (way, why), count in left.items()]
    good = len(verdicts) - sum(wrong.values())
    return "\n".join([grid, "", f"{good} of {len(verdicts)} cells are ok", *meaning, *reasons])


def cause(verdict: str) -> str:
    """A verdict without the change and the place that it is about: what many cells have in common."""
    return re.sub(r"^apply: .*? at \S+:\d+: ", "apply: ", verdict)


def letter(at: int) -> str:
    return chr(ord("A") + at) if at < 26 else f"{chr(ord('A') + at // 26 - 1)}{chr(ord('A') + at % 26)}"


def mark(verdict: str | None, letters: Mapping[str, str]) -> str:
    return LEFT_OUT if verdict is None else letters.get(verdict, OK)


def checked(rows: Sequence[measuring.Json]) -> Iterator[str]:
    """What each way to ask `check` does not find of what all of them find together."""
    for row in rows:
        lacking = [f"{name} lacks {', '.join(each)}" for name, each in row["lacking"].items() if each]
        yield f"check {row['shape']}: {len(row['places'])} places; {'; '.join(lacking) or 'the same in all three'}"


def measured(args: argparse.Namespace) -> measuring.Json:
    """What the cells and checks that were asked for give."""
    shapes = [shape for shape in matrix.shapes() if not args.shape or shape.name in args.shape]
    runnable = {shape.name for shape in shapes if not shape.missing}
    asked = (cell for cell in matrix.cells() if not args.way or cell.way.name in args.way)
    cells = [cell for cell in asked if cell.shape.name in runnable]
    return {
        "cells": [measuring.kept(args.out, cell.id, partial(measure, cell)) for cell in cells],
        "checks": [measuring.kept(args.out, f"check-{shape.name}", partial(check, shape)) for shape in shapes],
        "not_run": {shape.name: f"needs {', '.join(shape.missing)}" for shape in shapes if shape.missing},
    }


def text(document: measuring.Json) -> str:
    not_run = [f"not run: {name} {why}" for name, why in document["not_run"].items()]
    return "\n".join([table(document["cells"]), *not_run, *checked(document["checks"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", nargs="*", choices=[shape.name for shape in matrix.shapes()])
    parser.add_argument("--way", nargs="*", choices=[way.name for way in matrix.WAYS])
    parser.add_argument("--out", type=Path, help="keep every cell here, and go on from it")
    parser.add_argument("--load", type=Path, help="show a result that --json printed, and run nothing")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    document = json.loads(args.load.read_text()) if args.load else measured(args)
    measuring.show(document, text(document), args.json)


if __name__ == "__main__":
    main()
