"""The labelled cases of fixtures/labelled, and how one is laid out in a folder, as it is or with its change made."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import apply_corpus
import apply_kinds
import corpus
import measuring

HERE = Path(__file__).resolve().parent
LABELLED = measuring.ROOT / "fixtures" / "labelled"
HEALTHY = "healthy"
ON_GPU = ("gpu-1",)
"""Sets of scripts for a CUDA GPU, run where they are asked for by name."""

BY_PLACE = (*(f"blind-{number}" for number in range(7, 18)), *ON_GPU)
"""Sets whose authors had no list of kinds: what is scored is whether the tool points at the place of the fault."""

REPAIRED = "repaired"
"""Of such a set, the folder with the faulty scripts after their authors' repair."""

PLACE = re.compile(r"(?P<file>.+):(?P<first>\d+)(?:-(?P<last>\d+))?")


@dataclass(frozen=True, slots=True)
class Change:
    """What a hand does to a case: edits of its files, arguments added to its command, and words taken out of it."""

    edits: tuple[Mapping[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of a file of the case, counted from 1, both ends included."""

    file: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Case:
    """One labelled case of the set `set_name`, a folder of fixtures/labelled.

    `kind` is a key of the table [kinds] or "healthy". `expect` are rules that must be reported (the first one names the
    cause), `also` rules that may be; every other one must stay silent, and `silent` names those that tempt.
    `change` is the hand fix of a fault; of a healthy case what tempts, and does not pay. Both sides are measured over
    `steps` steps from the end of step `warmup` on, 0 meaning from the start of the process; `work` is what a step does
    after the change relative to before, in samples or useful tokens. A case is a script of its set's folder, a folder
    of that (`script` is then the folder, or its main file "NAME/train.py"), or a public script of the corpus with
    `plant` put into it. A case of the set "static" is read and not run: nothing of it is measured.

    A case of the sets BY_PLACE has instead of a kind the places that cost the time or that a reviewer would point at
    (`lines`, "FILE:FIRST-LAST"), the `topic` of the fault as its author put it, and its script with the fault repaired
    in place of `change` (`repair` says how). `ms_faulty` and `ms_repaired` are its author's figures: milliseconds of
    CPU time per optimizer step, one thread, one number for each start.
    """

    id: str
    set_name: str
    kind: str
    framework: str
    variant: str = ""
    why: str = ""
    expect: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    issue: str = ""
    script: str = ""
    corpus: str = ""
    plant: tuple[Mapping[str, str], ...] = ()
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    change: Change = field(default_factory=Change)
    warmup: int = 5
    steps: int = 30
    work: float = 1.0
    in_subset: bool = False
    lines: tuple[str, ...] = ()
    topic: str = ""
    repair: str = ""
    ms_faulty: tuple[float, ...] = ()
    ms_repaired: tuple[float, ...] = ()

    @property
    def is_healthy(self) -> bool:
        return self.kind == HEALTHY

    @property
    def is_static(self) -> bool:
        return self.set_name == "static"

    @property
    def is_by_place(self) -> bool:
        return self.set_name in BY_PLACE

    @property
    def has_sides(self) -> bool:
        """Whether there is a changed side to measure."""
        return not self.is_static and bool(self.repair or self.change != Change())

    @property
    def places(self) -> tuple[Place, ...]:
        """The places of `lines`. Raises ValueError for one that is no place."""
        return tuple(map(place, self.lines))


@dataclass(frozen=True, slots=True)
class Labels:
    """All cases, set by set in file order; the rules that name each kind; rules about the machine, never scored."""

    cases: tuple[Case, ...]
    kinds: Mapping[str, tuple[str, ...]]
    unscored: tuple[str, ...]


def read() -> Labels:
    """The labels of all sets. Raises TypeError for a key that no case has."""
    kinds = toml(LABELLED / "kinds.toml")
    cases = tuple(parsed(name, path.parent.name, row) for path in label_files() for name, row in toml(path).items())
    rules = {kind: tuple(rules) for kind, rules in kinds["kinds"].items()}
    return Labels(cases, rules, tuple(kinds["unscored"]))


def label_files() -> list[Path]:
    """One for each set: those that the tool was developed on first, then the blind ones in their order."""
    return sorted(
        LABELLED.glob("*/labels.toml"), key=lambda path: (path.parent.name.startswith(("blind-", "gpu-")), path)
    )


def set_names() -> list[str]:
    return [path.parent.name for path in label_files()]


def toml(path: Path) -> measuring.Json:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def place(text: str) -> Place:
    """Of "FILE:FIRST-LAST" or "FILE:LINE". Raises ValueError for anything else."""
    found = PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"no FILE:FIRST-LAST: {text!r}")
    return Place(found["file"], int(found["first"]), int(found["last"] or found["first"]))


def parsed(name: str, set_name: str, row: measuring.Json) -> Case:
    change = Change(**frozen(row.pop("change", {})))
    return Case(id=name, set_name=set_name, change=change, **frozen(row))


def frozen(row: measuring.Json) -> measuring.Json:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def laid_out(case: Case, folder: Path, given: Path | None, *, is_changed: bool) -> corpus.Case:
    """Make `folder` ready for one side of the case and say how to start it there.

    Raises OSError when the corpus cannot prepare it, ValueError for an edit whose place is not there exactly once.
    """
    change = case.change if is_changed else Change()
    is_repaired = is_changed and bool(case.repair)
    start = public(case, folder, given) if case.corpus else own(case, folder, is_repaired=is_repaired)
    edit(folder, [*case.plant, *change.edits], main_file(case), given)
    words = [word for word in case.command or start.argv if word not in case.without]
    kept = [word for word in (*words, *case.arguments) if word not in change.without]
    return corpus.Case((*kept, *change.arguments), start.cwd, start.environ, start.options)


def public(case: Case, folder: Path, given: Path | None) -> corpus.Case:
    if given is None:
        raise OSError("needs --corpus")
    return apply_corpus.plain(corpus.prepared(given, case.corpus, folder), folder)


def own(case: Case, folder: Path, *, is_repaired: bool) -> corpus.Case:
    source, main = own_source(case, is_repaired=is_repaired), main_file(case)
    if source.is_dir():
        # The main file of a folder is started from beside the folder, as its places are named from there.
        shutil.copytree(source, folder / source.name if "/" in main else folder, ignore=CACHES)
    else:
        folder.mkdir(parents=True)
        shutil.copy(source, folder)
    # As a user's activated environment does: `python` and `torchrun` are those of this interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return corpus.Case(("python", main), folder, {**os.environ, "PATH": path})


CACHES = shutil.ignore_patterns("__pycache__")


def own_source(case: Case, *, is_repaired: bool = False) -> Path:
    """The script of a case that is not of the corpus, or the folder that it is."""
    folder = LABELLED / case.set_name / (REPAIRED if is_repaired else "")
    return folder / Path(main_file(case)).parts[0]


def main_file(case: Case) -> str:
    return case.script or f"{case.id}.py"


def edit(folder: Path, rows: list[Mapping[str, str]], default: str, given: Path | None) -> None:
    """Make the edits, in order; one without a file is of the file `default`."""
    named = [{"file": default, **row} for row in rows]
    for name in dict.fromkeys(row["file"] for row in named):
        path, mine = folder / name, [row for row in named if row["file"] == name]
        path.write_text(apply_kinds.planted(path.read_text(encoding="utf-8"), mine, given or Path()), encoding="utf-8")


def stamp(case: Case) -> str:
    """Changes with everything that a measurement of the case depends on, but for what the corpus holds."""
    row = {key: value for key, value in asdict(case).items() if key not in REMARKS}
    sources = [] if case.corpus else [own_source(case), *([own_source(case, is_repaired=True)] if case.repair else [])]
    digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode())
    for file in (file for source in sources for file in files_of(source)):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def files_of(source: Path) -> list[Path]:
    """A script, or the files of a folder."""
    return sorted(filter(Path.is_file, source.rglob("*"))) if source.is_dir() else [source]


REMARKS = (
    *("id", "set_name", "kind", "framework", "variant", "why", "expect", "also", "silent", "issue", "in_subset"),
    *("lines", "topic", "repair", "ms_faulty", "ms_repaired"),
)
"""Fields that no measurement depends on."""
