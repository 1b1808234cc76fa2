"""Every shape of project in every way to start it, from the files alone: the edit lands where a person would make it.

What a run would see is given (`Seen` in expected.toml); benchmarks/ways.py runs the same cells.
"""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from matrix import Cell, Expect, Place, Shape, Start, cells, environ, lay_out, problem, shapes

from autotune import collect, patch
from autotune.apply import apply
from autotune.check.check import CheckOptions, check
from autotune.collect import artefacts
from autotune.diagnose.outcome import summarise
from autotune.diagnose.write_patch import relative_to_root
from autotune.engine.evidence import join, observed_over
from autotune.invocation import invoked
from autotune.model.evidence import Evidence, Location, Setting
from autotune.model.finding import SettingChange
from autotune.model.patch import Patch
from autotune.model.rule import Effect
from autotune.patch.file import NAME, dumps
from autotune.patch.plan import RequestedChange
from autotune.scan.command import scan_command

VERSIONS = {"torch": (2, 13, 0), "transformers": (5, 23, 0), "lightning": (2, 6, 6), "trl": (1, 16, 0)}

CELLS = [(cell, expect) for cell in cells() for expect in cell.shape.expects]


def parameter(cell: Cell, expect: Expect):
    return pytest.param(cell, expect, id=f"{cell.shape.name}.{expect.setting}-{cell.way.name}")


def observed(cell: Cell, expect: Expect, place: Place, start: Start) -> Setting:
    """The setting as `derive` states it of a run: its value, and the user's call that gave it."""
    at = cell.seen(expect, place, start)
    location = Location(str(at[0]), at[1], expect.seen.call) if at is not None else None
    seen = expect.seen
    spelling = seen.spelling if location is not None else ""
    return Setting(expect.setting, expect.subject, expect.old, seen.origin, location, spelling=spelling)


def command(cell: Cell, place: Place, start: Start) -> tuple[str, ...]:
    """The command as a run keeps it."""
    recording = SimpleNamespace(
        process={"argv": cell.argv(place, start), "executable": sys.executable},
        window=None,
        what_ifs=(),
        error=None,
        events=(),
        outcome="completed",
        side_effects={"blocked": (), "not_isolated": ()},
    )
    collected = collect.Collected(place.root, (recording,), "probe", 0, 1.0, 0.5, None)  # type: ignore[arg-type]
    return summarise(collected, start.words, sys.executable, "", False, start.cwd).command


def evidence(observed: Setting, settings: tuple[Setting, ...]) -> Evidence:
    return observed_over(join((), settings), join((), (observed,)))


def applied(cell: Cell, expect: Expect, place: Place, start: Start) -> apply.ApplyPlan:
    """What `apply` would do with the change, from the words on."""
    variables = environ(cell.shape, place, os.environ)
    if not cell.shape.missing:
        collect.plan_command(start.words, sys.executable, start.cwd, variables)
    root = artefacts.command_root(start.cwd, invoked(start.words, start.cwd, variables).file)
    bundle = scan_command(start.words, cwd=start.cwd, root=root, versions=VERSIONS, environ=variables)
    seen = observed(cell, expect, place, start)
    known = evidence(seen, bundle.settings if bundle is not None else ())
    change = SettingChange(expect.setting, expect.old, expect.new, Effect.EQUIVALENT, seen.location, seen.spelling)
    setting = known.setting(expect.subject, expect.setting)
    wanted = RequestedChange(change, expect.subject, setting, (expect.rule,))
    (draft,) = patch.plan([wanted], bundle, lambda name: Path(name).read_bytes(), VERSIONS)
    run = artefacts.new_run(root)
    made = Patch(str(root), run.name, command(cell, place, start), tuple(relative_to_root([draft.change], root)))
    artefacts.write_patch(run / NAME, dumps(made))
    planned = apply.plan(apply.ApplyOptions(str(run / NAME)), cwd=start.cwd)
    assert not planned.left, planned.left[0][1]
    return planned


def lines(before: bytes, after: bytes) -> tuple[list[str], list[str]]:
    """The lines that are taken away, and those that are added."""
    told = list(difflib.ndiff(before.decode().splitlines(), after.decode().splitlines()))
    return tuple([line[2:] for line in told if line.startswith(mark)] for mark in ("- ", "+ "))


@pytest.mark.parametrize(("cell", "expect"), [parameter(*one) for one in CELLS])
def test_the_edit_lands_where_a_person_would_make_it(cell: Cell, expect: Expect, tmp_path: Path) -> None:
    place = lay_out(cell.shape, tmp_path)
    start = cell.start(place)
    if isinstance(start, str):
        pytest.skip(start)
    planned = applied(cell, expect, place, start)
    changed = {path: lines(before, after) for path, before, after in planned.files}
    pasted = tuple(shlex.split(planned.command))
    assert not problem(expect, start, place, expect.new, changed, pasted)


def places(root: Path, *names: str) -> set[tuple[str, str, int]]:
    """The rule, file and line of each finding of `check`."""
    found = check(CheckOptions(tuple(map(Path, names)), with_minor=True), cwd=root).findings
    return {(one.rule.id, one.location.file, one.location.line) for one in found if one.location is not None}


def asked(shape: Shape, what: str) -> tuple[str, ...]:
    """What is asked of `check`: the folder, the script, or the script with its configs."""
    return {"folder": (".",), "script": (shape.script,), "script-and-config": (shape.script, *shape.configs)}[what]


SILENT = {"hf_flags"}
"""Of what `check` has nothing to say: its samples are made by a few operations, and its settings need a run."""


@pytest.mark.parametrize("what", ["script", "script-and-config"])
@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: shape.name)
def test_check_names_the_same_places_whatever_it_is_asked(shape: Shape, what: str, tmp_path: Path) -> None:
    root = lay_out(shape, tmp_path).root
    found = places(root, *asked(shape, "folder"))
    assert bool(found) is (shape.name not in SILENT), "nothing is compared"
    assert places(root, *asked(shape, what)) == found


def test_the_expected_lines_stand_in_the_projects() -> None:
    for shape in shapes():
        for expect in shape.expects:
            text = (shape.folder / expect.file).read_text().splitlines()
            assert text.count(expect.before) == 1, (shape.name, expect.before)
            assert (
                sum(expect.seen.line in line for line in (shape.folder / expect.seen.file).read_text().splitlines())
                == 1
            )


def test_there_are_enough_shapes_and_ways() -> None:
    assert len(shapes()) >= 7
    assert len({cell.way.name for cell, _ in CELLS}) >= 12
