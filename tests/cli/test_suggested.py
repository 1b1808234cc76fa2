"""Every command that a report or an error suggests is whole: typed as it stands, it works where it was printed."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import autotune as autotune_package
from autotune import cli
from autotune.collect import artefacts, plan_command
from autotune.errors import AutotuneError
from autotune.explain.rules import find_rule

SCRIPT = """\
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.ones(4)

def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Slow(), batch_size=4):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "my project"
    for name in ("my train.py", "pkg/train.py", "pkg/__init__.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(SCRIPT if name.endswith("train.py") else "")
    (root / ".git").mkdir()
    (root / "run.sh").write_text('cd "$(dirname "$0")"\npython "my train.py"\n')
    (root / "nb.ipynb").write_text("{}")
    (root / "rel").mkdir()
    (root / "rel" / "train.py").write_text(f"from . import data\n{SCRIPT}")
    (root / "rel" / "data.py").write_text("")
    (tmp_path / "elsewhere").mkdir()
    return root


def autotune(words: list[str], cwd: Path) -> tuple[int, str]:
    """The exit code of `autotune WORDS`, and all that it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    done = subprocess.run(
        [sys.executable, "-m", "autotune", *words],
        cwd=cwd, capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def suggested(text: str) -> Iterator[str]:
    """The commands in a text: in backticks, or on a line of their own with or without a reason behind it."""
    yield from re.findall(r"`((?:cd [^`]* && )?autotune [^`]+)`", text)
    for line in text.splitlines():
        found = re.match(r"(?:Next)?\s+((?:cd \S.* && |PATH=\S+ )?autotune \S.*?)(?:\s{3,}.*)?$", line)
        if found:
            yield found[1]
    yield from re.findall(r"[(:] ?(autotune (?:diagnose|apply|tune|verify) [^)\n]+)", text)


def check_verify(words: list[str], cwd: Path) -> None:
    """That it runs, within a minute: a busy machine is told which budget suffices."""
    at = words.index("--budget")
    code, said = autotune([*words[:at], "--no-lock", "--budget", "60s", *words[at + 2 :]], cwd)
    assert code == 0 or "This suffices" in said, said


def words_of(line: str, cwd: Path) -> tuple[list[str], Path]:
    """The words behind `autotune`, and the folder where they are typed."""
    words = shlex.split(line)
    if words[0] == "cd":
        return words[4:], cwd / words[1]
    return words[words.index("autotune") + 1 :], cwd


def check_whole(line: str, cwd: Path) -> None:
    """That a command is taken by the command line, and that what it names is there."""
    (verb, *rest), folder = words_of(line, cwd)
    context = click.Context(cli.autotune)
    command = cli.autotune.get_command(context, verb)
    assert command is not None, line
    given = command.make_context(verb, rest, parent=context).params
    if words := given.get("command"):
        plan_command(words, sys.executable, folder)
    if name := given.get("load") or (given.get("name") if verb == "apply" else None):
        assert artefacts.resolve(name, folder)
    if rule := given.get("rule"):
        find_rule(rule)


WAYS = {
    "assignment": ("my project", ["OMP_NUM_THREADS=1", "python", "my train.py", "--out", "a-b"]),
    "elsewhere": ("elsewhere", ["../my project/my train.py"]),
    "module": ("my project", ["-m", "pkg.train"]),
    "shell": ("my project/pkg", ["bash", "../run.sh"]),
}


@pytest.mark.parametrize("way", [way if way == "module" else pytest.param(way, marks=pytest.mark.long) for way in WAYS])
def test_what_a_report_suggests_works(
    project: Path, way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, words = WAYS[way]
    cwd = project.parent / folder
    code, said = autotune(["diagnose", "--steps", "5", "--no-what-ifs", "--no-lock", "--quiet", "--", *words], cwd)
    assert code == 0, said
    lines = list(dict.fromkeys(suggested(said[said.index("Next") :])))
    assert {"autotune apply --diff", "autotune verify --budget 10m"} <= set(lines)
    assert any(line.startswith("autotune diagnose --steps 30 -- ") for line in lines)
    monkeypatch.chdir(cwd)
    for line in lines:
        check_whole(line, cwd)
        if "autotune verify" in line:
            check_verify(*words_of(line, cwd))
        elif "--steps" not in line:
            assert cli.run(words_of(line, cwd)[0]) == 0, line
    capsys.readouterr()
    assert cli.run(["apply", "--yes"]) == 0
    (undo,) = suggested(capsys.readouterr().out)
    assert "num_workers=" in (project / ("pkg/train.py" if way == "module" else "my train.py")).read_text()
    undone, where = words_of(undo, cwd)
    monkeypatch.chdir(where)
    assert cli.run(undone) == 0
    assert (project / "my train.py").read_text() == SCRIPT


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("my project", ["check", "."]),
        ("my project/pkg", ["check", "../my train.py"]),
        ("my project", ["check", "pkg"]),
        ("elsewhere", ["check", "../my project"]),
        ("my project", ["apply"]),
        ("my project", ["verify"]),
        ("my project", ["tune"]),
        ("my project", ["diagnose", "my train.py", "--steps", "5", "--output", "a b"]),
        ("my project", ["diagnose", "--lr", "1", "my train.py"]),
        ("my project", ["explain", "XX001"]),
        ("my project", ["undo"]),
        ("my project", ["diagnose", "./run.sh", "--quiet"]),
        ("my project", ["verify", "my train.py", "--resume"]),
        ("my project", ["check", "--baseline", "no such file", "."]),
        ("elsewhere", ["check", "../my project/rel"]),
    ],
)
def test_what_checks_and_errors_suggest_is_whole(
    project: Path, folder: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cwd = project.parent / folder
    monkeypatch.chdir(cwd)
    monkeypatch.setattr("autotune.cli.diagnose.diagnose", _far_enough)
    cli.run(words)
    said = "".join(capsys.readouterr())
    for line in suggested(said):
        if not re.search(r"\b(SCRIPT|COMMAND|train\.py \[ARGS)", line):  # how a verb is used, where nothing is known
            check_whole(line, cwd)


def printed() -> Iterator[tuple[str, str]]:
    """Each text of the package that is printed and names a command, with "X" for what is known only then; its file."""
    for file in sorted(Path(autotune_package.__file__).parent.rglob("*.py")):
        tree = ast.parse(file.read_text())
        owners = [one for one in ast.walk(tree) if isinstance(one, ast.Module | ast.ClassDef | ast.FunctionDef)]
        notes = {id(one.body[0].value) for one in owners if one.body and isinstance(one.body[0], ast.Expr)}
        inner = {id(part) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in ast.walk(one)} - {
            id(one) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr)
        }
        for node in ast.walk(tree):
            if id(node) in inner | notes:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = [one.value if isinstance(one, ast.Constant) else "X" for one in node.values]
                yield "".join(map(str, parts)), file.name
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, file.name


COMMAND = re.compile(r"autotune (check|diagnose|explain|apply|verify|tune|undo|rules)\b(?!:)([^`\n]*)")


def test_every_command_in_a_text_of_the_package_has_a_verb_and_options_that_exist() -> None:
    context = click.Context(cli.autotune)
    seen = 0
    for text, file in printed():
        for verb, rest in COMMAND.findall(text):
            command = cli.autotune.get_command(context, verb)
            assert command is not None
            known = {name for one in command.params for name in one.opts} | {"--help"}
            own = rest.partition(" -- ")[0]
            assert set(re.findall(r"(?<!\S)--[a-z-]+", own)) <= known, (file, text)
            seen += 1
    assert seen > 40


def _far_enough(*_: object, **__: object) -> None:
    raise AutotuneError("far enough")


def test_a_module_is_no_script_to_diagnose(project: Path, monkeypatch, capsys) -> None:
    (project / "pkg" / "train.py").unlink()
    (project / "pkg" / "model.py").write_text(SCRIPT.partition("if __name__")[0])
    monkeypatch.chdir(project)
    cli.run(["check", "pkg"])
    assert "autotune diagnose pkg/model.py" not in capsys.readouterr().out


def test_a_launch_is_offered_where_it_was_typed(project: Path, monkeypatch, capsys) -> None:
    """The command of a run that was typed in another folder than apply is."""
    from test_apply_cli import keep

    from autotune import state
    from autotune.model.patch import Edit, PatchChange
    from autotune.model.rule import Effect
    from autotune.model.scanned import TYPED

    edit = Edit(TYPED, "--workers", "0", "4")
    change = PatchChange("loader.num_workers", "run", 0, 4, ("DL001",), Effect.EQUIVALENT, edits=(edit,))
    words = ("OMP_NUM_THREADS=1", "python", "train.py", "--workers", "0")
    keep(project, change, command=words)
    run = artefacts.resolve("last", project)
    state.store_command(project, run.name, words, project / "pkg", None)
    monkeypatch.chdir(project)
    assert cli.run(["apply", "--yes"]) == 0
    line = capsys.readouterr().out.splitlines()[-1].strip()
    assert line == f"cd {shlex.quote(str(project / 'pkg'))} && OMP_NUM_THREADS=1 python train.py --workers 4"
