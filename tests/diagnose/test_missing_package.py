"""A package that the script's Python lacks: which Python has it, and the command that uses that one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from autotune.collect import EarlyException
from autotune.diagnose import missing_package
from autotune.model.report import RunSummary

LACKS = EarlyException("ModuleNotFoundError", "no_such_a", "/its/bin/python")


def environment(folder: Path, *packages: str) -> Path:
    places = folder / "lib" / "python3.11" / "site-packages"
    places.mkdir(parents=True)
    for name in packages:
        (places / name).mkdir()
    (folder / "pyvenv.cfg").write_text("home = /usr\n")
    (folder / "bin").mkdir()
    for name in ("python", "torchrun"):
        (folder / "bin" / name).write_text("#!/bin/sh\n")
        (folder / "bin" / name).chmod(0o755)
    return folder / "bin"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "own.py").write_text("")
    (tmp_path / "my train.py").write_text("")
    (tmp_path / "run.sh").write_text("python train.py\n")
    return tmp_path


def run(error: str = "exit code 1", processes: int = 0) -> RunSummary:
    return RunSummary(
        folder="",
        command=(),
        outcome="raised",
        python=sys.executable,
        python_from="",
        error=error,
        num_processes=processes,
    )


def test_the_environment_that_has_it_is_named_with_the_command(project: Path) -> None:
    bin_ = environment(project / ".venv", "no_such_a")
    words = ("A=x y", "python", "my train.py", "--lr", "1")
    said = missing_package.hint(words, run(), LACKS, project, {"PATH": "", "HOME": str(project)}).splitlines()
    assert said[1] == f"/its/bin/python has no 'no_such_a'; {bin_ / 'python'} has it:"
    line = shlex.split(said[2])
    assert line == ["autotune", "diagnose", "--python", str(bin_ / "python"), "--", "A=x y", *words[1:]]


def test_a_launcher_and_a_shell_reach_it_in_their_own_ways(project: Path) -> None:
    bin_ = environment(project / ".venv", "no_such_a")
    environ = {"PATH": "", "HOME": str(project)}
    error = run("ModuleNotFoundError: No module named 'no_such_a' at train.py:3", 1)

    def line(*words: str) -> str:
        return missing_package.hint(words, error, None, project, environ).splitlines()[-1].strip()

    assert line("torchrun", "my train.py") == f"autotune diagnose -- {bin_ / 'torchrun'} 'my train.py'"
    assert line("bash", "run.sh") == f"PATH={bin_}:$PATH autotune diagnose -- bash run.sh"
    assert line("uv", "run", "my train.py") == f"PATH={bin_}:$PATH autotune diagnose -- uv run 'my train.py'"


def test_where_none_has_it_that_is_said(project: Path) -> None:
    said = missing_package.hint(("my train.py",), run(), LACKS, project, {"PATH": "", "HOME": str(project)})
    assert said.startswith("\n/its/bin/python has no 'no_such_a', and no other Python found here has it:")


@pytest.mark.parametrize(
    ("recorded", "raised"),
    [
        (run("ValueError: no", 1), None),
        (run("ValueError: no", 1), LACKS),
        (run("exit code 2"), None),
        (run(), EarlyException("FileNotFoundError", "", "/its/bin/python")),
        (run(), EarlyException("ModuleNotFoundError", "own", "/its/bin/python")),
        (run(), EarlyException("ModuleNotFoundError", "torch.no_such", "/its/bin/python")),
    ],
)
def test_another_failure_has_nothing_to_do_with_packages(
    project: Path, recorded: RunSummary, raised: EarlyException | None
) -> None:
    environ = {"PATH": "", "HOME": str(project)}
    for words in (("my train.py",), ("bash", "run.sh")):
        assert missing_package.hint(words, recorded, raised, project, environ) == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("src/train.py", "--lr", "1"), "autotune diagnose -m src.train --lr 1"),
        (("A=1", "python", "src/train.py"), "autotune diagnose -- A=1 python -m src.train"),
        (
            ("torchrun", "--nproc-per-node", "2", "src/train.py"),
            "autotune diagnose -- torchrun --nproc-per-node 2 -m src.train",
        ),
        (("python", "-m", "src.train"), ""),
        (("bash", "run.sh"), ""),
    ],
)
def test_a_script_of_a_package_is_started_as_its_module(project: Path, words: tuple[str, ...], expected: str) -> None:
    (project / "src").mkdir()
    (project / "src" / "train.py").write_text("from src.data import x")
    (project / "src" / "data.py").write_text("x = 1")
    said = missing_package.hint(
        words, run(), EarlyException("ModuleNotFoundError", "src", "/its/python"), project, {"PATH": ""}
    )
    assert said.rpartition("    ")[2] == expected


def test_from_another_folder_the_command_goes_to_the_package(project: Path, tmp_path: Path) -> None:
    (project / "a" / "pkg").mkdir(parents=True)
    (project / "a" / "pkg" / "train.py").write_text("import pkg.data")
    (project / "a" / "pkg" / "data.py").write_text("")
    said = missing_package.hint(
        ("a/pkg/train.py",), run(), EarlyException("ModuleNotFoundError", "pkg", "/p"), project, {"PATH": ""}
    )
    assert said.endswith(f"    cd {project}/a && autotune diagnose -m pkg.train")


def test_a_folder_that_is_called_like_a_library_is_no_package(project: Path) -> None:
    (project / "lightning").mkdir()
    (project / "lightning" / "train.py").write_text("import lightning\nfrom lightning.pytorch import Trainer\n")
    said = missing_package.hint(
        ("lightning/train.py",), run(), EarlyException("ModuleNotFoundError", "lightning", "/p"), project, {"PATH": ""}
    )
    assert "-m" not in said
