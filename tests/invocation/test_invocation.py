"""What a command starts, however it is named: the file, the variables, the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotune.invocation import invoked, typed


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a script, a package, launch scripts, a link, and a console tool that is installed for editing."""
    root = tmp_path / "project"
    for name in ("train.py", "src/deep/train.py", "pkg/__init__.py", "pkg/train.py", "pkg/__main__.py", "my train.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "link.py").symlink_to("train.py")
    scripts = {"run.sh": "python train.py\n", "launch": "#!/usr/bin/env bash\n", "start": "#!/usr/bin/env python\n"}
    for name, text in scripts.items():
        (root / name).write_text(text)
    environment = tmp_path / "env"
    packages = environment / "lib" / "python3.11" / "site-packages"
    (environment / "bin").mkdir(parents=True)
    packages.mkdir(parents=True)
    (packages / "project.pth").write_text(f"{root / 'src'}\n")
    tool = environment / "bin" / "tool"
    tool.write_text(f"#!{environment}/bin/python\nfrom deep.train import main\nmain()\n")
    tool.chmod(0o755)
    return root


def environ(project: Path) -> dict[str, str]:
    return {"PATH": str(project.parent / "env" / "bin")}


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["train.py"], "train.py"),
        (["{root}/train.py"], "train.py"),
        (["pkg/../train.py"], "train.py"),
        (["python", "train.py"], "train.py"),
        (["A=1", "python", "train.py"], "train.py"),
        (["env", "A=1", "python", "train.py"], "train.py"),
        (["env", "-u", "A", "python", "train.py"], "train.py"),
        (["uv", "run", "train.py"], "train.py"),
        (["-m", "pkg.train"], "pkg/train.py"),
        (["python", "-m", "pkg"], "pkg/__main__.py"),
        (["-m", "deep.train"], "src/deep/train.py"),
        (["PYTHONPATH=src", "-m", "deep.train"], "src/deep/train.py"),
        (["torchrun", "-m", "pkg.train"], "pkg/train.py"),
        (["accelerate", "launch", "train.py"], "train.py"),
        (["tool", "--lr", "1"], "src/deep/train.py"),
        (["uv", "run", "tool"], "src/deep/train.py"),
        (["start"], None),
        (["./start"], "start"),
        (["./run.sh"], "run.sh"),
        (["run.sh"], "run.sh"),
        (["bash", "-e", "run.sh", "a"], "run.sh"),
        (["./launch"], "launch"),
        (["missing.py"], "missing.py"),
        (["-m", "missing"], None),
        (["trl", "sft"], None),
        (["bash", "-c", "python train.py"], None),
        (["env", "-C", "pkg", "python", "train.py"], "pkg/train.py"),
    ],
)
def test_the_file_behind_a_command(project: Path, words: list[str], file: str | None) -> None:
    called = invoked([word.format(root=project) for word in words], project, environ(project))
    found = os.path.relpath(os.path.normpath(called.file), project) if called.file is not None else None
    assert found == file


@pytest.mark.parametrize(
    ("words", "front", "started", "variables"),
    [
        (["A=1", "B=x y", "python", "t.py", "C=2"], 2, ["python", "t.py", "C=2"], {"A": "1", "B": "x y"}),
        (["A=1", "env", "A=2", "python", "t.py"], 3, ["python", "t.py"], {"A": "2"}),
        (["env", "-i", "A=2", "python", "t.py"], 0, ["env", "-i", "A=2", "python", "t.py"], {}),
        (["A=1"], 1, [], {"A": "1"}),
    ],
)
def test_assignments_become_variables(
    project: Path, words: list[str], front: int, started: list[str], variables: dict[str, str]
) -> None:
    called = invoked(words, project, {})
    assert (called.front, list(called.words), called.variables) == (tuple(words[:front]), started, variables)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train.py", "a"], ["python", "{root}/train.py", "a"]),
        (["link.py"], ["python", "{root}/train.py"]),
        (["python", "-um", "pkg.train", "a"], ["python", "{root}/pkg/train.py", "a"]),
        (["torchrun", "--standalone", "-m", "pkg.train"], ["torchrun", "--standalone", "{root}/pkg/train.py"]),
        (["uv", "run", "-m", "pkg.train"], ["uv", "run", "python", "{root}/pkg/train.py"]),
        (["tool", "a"], ["python", "{root}/src/deep/train.py", "a"]),
        (["trl", "sft", "a"], ["trl", "sft", "a"]),
        (["-m", "missing"], ["-m", "missing"]),
    ],
)
def test_who_reads_the_files_gets_the_path(project: Path, words: list[str], expected: list[str]) -> None:
    read = invoked(words, project, environ(project)).read_as()
    assert list(read) == [word.format(root=project.resolve()) for word in expected]


def test_the_arguments_are_what_the_script_gets(project: Path) -> None:
    def arguments(*words: str) -> tuple[str, ...]:
        return invoked(words, project, environ(project)).arguments

    assert arguments("uv", "run", "train.py", "--a", "1") == ("--a", "1")
    assert arguments("torchrun", "--standalone", "-m", "pkg.train", "--a") == ("--a",)
    assert arguments("tool", "--a") == ("--a",)


def test_a_line_for_a_shell_keeps_assignments() -> None:
    assert typed(["A=x y", "B=", "python", "my train.py", "C=x y"]) == "A='x y' B='' python 'my train.py' 'C=x y'"
