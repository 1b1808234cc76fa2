"""The labelled cases of fixtures/labelled, and how one is laid out in a folder, as it is or with its change made."""

from __future__ import annotations

import hashlib
import json
import os
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


@dataclass(frozen=True, slots=True)
class Change:
    """What a hand does to a case: edits of its files, arguments added to its command, and words taken out of it."""

    edits: tuple[Mapping[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One labelled case of the set `set_name`, a folder of fixtures/labelled.

    `kind` is a key of the table [kinds] or "healthy". `expect` are rules that must be reported (the first one names the
    cause), `also` rules that may be; every other one must stay silent, and `silent` names those that tempt.
    `change` is the hand fix of a fault; of a healthy case what tempts, and does not pay. Both sides are measured over
    `steps` steps from the end of step `warmup` on, 0 meaning from the start of the process; `work` is what a step does
    after the change relative to before, in samples or useful tokens. A case is a script of its set's folder, or a
    public script of the corpus with `plant` put into it. A case of the set "static" is read and not run: nothing of it
    is measured.
    """

    id: str
    set_name: str
    kind: str
    framework: str
    variant: str
    why: str
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

    @property
    def is_healthy(self) -> bool:
        return self.kind == HEALTHY

    @property
    def is_static(self) -> bool:
        return self.set_name == "static"


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
    return sorted(LABELLED.glob("*/labels.toml"), key=lambda path: (path.parent.name.startswith("blind-"), path))


def set_names() -> list[str]:
    return [path.parent.name for path in label_files()]


def toml(path: Path) -> measuring.Json:
    return tomllib.loads(path.read_text(encoding="utf-8"))


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
    start = public(case, folder, given) if case.corpus else own(case, folder)
    edit(folder, [*case.plant, *change.edits], main_file(case), given)
    words = [word for word in case.command or start.argv if word not in case.without]
    kept = [word for word in (*words, *case.arguments) if word not in change.without]
    return corpus.Case((*kept, *change.arguments), start.cwd, start.environ, start.options)


def public(case: Case, folder: Path, given: Path | None) -> corpus.Case:
    if given is None:
        raise OSError("needs --corpus")
    return apply_corpus.plain(corpus.prepared(given, case.corpus, folder), folder)


def own(case: Case, folder: Path) -> corpus.Case:
    source = own_source(case)
    if source.is_dir():
        shutil.copytree(source, folder)
    else:
        folder.mkdir(parents=True)
        shutil.copy(source, folder)
    # As a user's activated environment does: `python` and `torchrun` are those of this interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return corpus.Case(("python", source.name), folder, {**os.environ, "PATH": path})


def own_source(case: Case) -> Path:
    """The script of a case that is not of the corpus, or the folder that it is."""
    return LABELLED / case.set_name / main_file(case)


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
    source = own_source(case)
    files = [] if case.corpus else sorted(filter(Path.is_file, source.rglob("*"))) if source.is_dir() else [source]
    digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


REMARKS = ("id", "set_name", "kind", "framework", "variant", "why", "expect", "also", "silent", "issue", "in_subset")
"""Fields that no measurement depends on."""
