"""Environments of a project and of its user: found by their folders, and nothing of them is run."""

from __future__ import annotations

import base64
import hashlib
import sys
from pathlib import Path

import pytest

from autotune.invocation import invoked
from autotune.machine import environments
from autotune.machine.interpreter import candidates, find_python


def environment(folder: Path, *packages: str, config: str = "") -> str:
    """A virtual environment that has these packages; its Python cannot be run."""
    places = folder / "lib" / "python3.11" / "site-packages"
    places.mkdir(parents=True)
    for name in packages:
        (places / name).mkdir()
    (folder / "pyvenv.cfg").write_text(config or "include-system-site-packages = false\n")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    return str(python)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    (root / "src" / "train.py").write_text("import torch\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return root


def test_the_projects_environment_is_taken_before_ours(project: Path) -> None:
    python = environment(project / ".venv", "torch")
    found = find_python(("src/train.py",), None, {"PATH": ""}, project)
    assert found == (python, f"the project's environment ({project / '.venv'})")
    elsewhere = find_python((str(project / "src" / "train.py"),), None, {"PATH": ""}, project.parent)
    assert elsewhere[0] == python
    assert find_python((), None, {"PATH": ""}, project)[0] == sys.executable, (
        "nothing of a project that is only checked"
    )


def test_an_environment_without_torch_is_for_something_else(project: Path) -> None:
    environment(project / ".venv", "sphinx")
    assert find_python(("src/train.py",), None, {"PATH": ""}, project)[0] == sys.executable


def test_the_active_environment_wins(project: Path, tmp_path: Path) -> None:
    environment(project / ".venv", "torch")
    active = environment(tmp_path / "active")
    environ = {"PATH": "", "VIRTUAL_ENV": str(tmp_path / "active")}
    assert find_python(("src/train.py",), None, environ, project)[0] == active


def test_poetry_keeps_them_in_its_cache(project: Path, tmp_path: Path) -> None:
    (project / "poetry.lock").write_text("")
    mark = base64.urlsafe_b64encode(hashlib.sha256(str(project).encode()).digest()).decode()[:8]
    python = environment(tmp_path / "home/.cache/pypoetry/virtualenvs" / f"project-{mark}-py3.11", "torch")
    assert find_python(("src/train.py",), None, {"PATH": ""}, project)[0] == python


def test_candidates_have_the_module(project: Path, tmp_path: Path) -> None:
    with_it = environment(project / "venv", "torch", "PIL")
    conda = environment(tmp_path / "conda", "PIL")
    environment(tmp_path / "other", "torch")
    listed = tmp_path / "home" / ".conda" / "environments.txt"
    listed.parent.mkdir(parents=True)
    listed.write_text(f"{tmp_path / 'other'}\n{tmp_path / 'conda'}\n")
    environ = {"PATH": "", "HOME": str(tmp_path / "home")}
    found = candidates("PIL", ("src/train.py",), environ, project)
    assert [one for one in found if str(tmp_path) in one] == [with_it, conda]


def test_what_an_environment_has(tmp_path: Path) -> None:
    python = environment(tmp_path / "env", "torch")
    (tmp_path / "more" / "linked").mkdir(parents=True)
    packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    (packages / "more.pth").write_text(f"{tmp_path / 'more'}\nimport something\n")
    (packages / "single.py").write_text("")
    (packages / "fast.cpython-311-x86_64-linux-gnu.so").write_text("")
    has = {name: environments.has(python, name) for name in ("torch", "torch.nn", "linked", "single", "fast", "PIL")}
    assert [name for name, is_there in has.items() if not is_there] == ["PIL"]


def test_a_folder_that_others_may_write_holds_no_environment(project: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (project / "pyproject.toml").unlink()
    environment(tmp_path / ".venv", "torch")
    assert list(environments.of_project(invoked(("src/train.py",), project))) == []
