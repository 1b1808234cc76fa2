"""Scripts that no other file of a project names."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.scan import named_scripts, scan
from autotune.scan.named_scripts import NamedScripts

OLD = """
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", evaluation_strategy="steps")
Trainer(model, args).train()
"""

COMMAND = {"README.md": "    python main.py --fast\n"}


def is_named_nowhere(root: Path, files: dict[str, str], *paths: Path) -> object:
    for name, text in {"old.py": OLD, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (bundle,) = [one for one in scan(paths or [root], root=root).bundles if one.name == "old.py"]
    return {one.name: one.value for one in bundle.facts}.get("code.is_named_nowhere")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (COMMAND, True),
        ({"run.sh": "torchrun --nproc_per_node 2 \\\n"}, None),  # starts nothing that is known
        ({}, None),  # a project that says nothing of how it is started
        ({"README.md": "    python main.py\n    python old.py\n"}, None),
        ({**COMMAND, "jobs/all.yaml": "command: [python, old.py]\n"}, None),
        ({**COMMAND, "main.py": "from old import args\n"}, None),
        ({**COMMAND, "main.py": "import os, old\n"}, None),
        ({**COMMAND, "main.py": "from package import (\n    new,\n    old,\n)\n"}, None),
        ({**COMMAND, "Makefile": "train:\n\tpython -m old\n"}, None),
        ({**COMMAND, "main.py": "older = 'old'\n"}, True),
        ({**COMMAND, "notes.md": "see very_old.py\n"}, True),
        ({**COMMAND, ".git/log.md": "python old.py\n"}, True),
    ],
)
def test_a_script_that_nothing_names(tmp_path: Path, files: dict[str, str], expected: bool | None) -> None:
    assert is_named_nowhere(tmp_path, files) is expected


def test_a_script_that_the_user_names_is_used(tmp_path: Path) -> None:
    assert is_named_nowhere(tmp_path, COMMAND, tmp_path / "old.py") is None


def test_it_is_asked_only_where_it_matters(tmp_path: Path) -> None:
    text = OLD.replace("evaluation_strategy", "eval_strategy")
    assert is_named_nowhere(tmp_path, {**COMMAND, "old.py": text}) is None


def test_of_a_project_with_too_many_files_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_scripts, "MOST_FILES", 1)
    assert is_named_nowhere(tmp_path, COMMAND) is None


def test_of_a_project_with_a_text_that_cannot_be_read_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("python main.py other.py\n")
    (tmp_path / "run.md").write_text("python main.py\n")
    assert NamedScripts(tmp_path).names_nowhere("old.py")
    monkeypatch.setattr(named_scripts, "MOST_BYTES", 16)
    assert not NamedScripts(tmp_path).names_nowhere("old.py")
    (tmp_path / "README.md").rename(tmp_path / "data.json")
    assert NamedScripts(tmp_path).names_nowhere("old.py"), "a large file of data"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".github/workflows/ci.yml", "run: python old.py"),
        ("pyproject.toml", 'go = "old:main"'),
        ("job.yaml", 'command: ["python", "-m", "old"]'),
        ("run.sh", "python \\\n-m old"),
        ("main.py", 'importlib.import_module("old")'),
    ],
)
def test_other_ways_to_name_a_script(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "run.md").write_text("python main.py\n")
    assert NamedScripts(tmp_path).names_nowhere("old.py")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    assert not NamedScripts(tmp_path).names_nowhere("old.py")
