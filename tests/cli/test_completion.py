"""Completion in a shell, as docs/install.md turns it on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.cli import VERBS

PAGE = Path(__file__).parents[2] / "docs" / "install.md"
BASH = shutil.which("bash")


def completed(*words: str, shell: str = "bash") -> list[str]:
    """What the completion of `shell` is answered for the last of `words`: "kind,text" in bash."""
    environ = {
        **os.environ,
        "_AUTOTUNE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    code = "from autotune.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, encoding="utf-8", check=False
    )
    assert ended.stderr == ""
    return ended.stdout.splitlines()


def test_every_verb_is_offered() -> None:
    assert completed("autotune", "") == [f"plain,{name}" for name in VERBS]


def test_options_and_their_values_are_offered() -> None:
    assert completed("autotune", "report", "--form") == ["plain,--format"]
    assert completed("autotune", "report", "--format", "mark") == ["plain,markdown"]


@pytest.mark.parametrize("verb", ["diagnose", "verify", "tune", "fit"])
def test_a_command_is_completed_by_files(verb: str) -> None:
    assert completed("autotune", verb, "tra") == ["file,tra"]


def test_prices_are_completed_by_files() -> None:
    assert completed("autotune", "fit", "--price", "pri") == ["file,pri"]


def test_rules_are_completed_by_their_ids_in_any_case() -> None:
    assert "plain,DL001" in completed("autotune", "explain", "dl00")


def test_the_page_names_the_line_of_each_shell() -> None:
    lines = dict(re.findall(r"^\| (\w+) \| `(.+?)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert set(lines) == {"bash", "zsh", "fish"}
    assert all(f"_AUTOTUNE_COMPLETE={shell}_source autotune" in line for shell, line in lines.items())


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_the_line_of_bash_turns_it_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (line,) = re.findall(r"^\| bash \| `(.+?)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    (tmp_path / "autotune").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m autotune "$@"\n')
    (tmp_path / "autotune").chmod(0o755)
    script = f"{line}\nCOMP_WORDS=(autotune diag)\nCOMP_CWORD=1\n_autotune_completion autotune\necho $COMPREPLY"
    environ = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(
        [str(BASH), "-c", script], cwd=tmp_path, env=environ, capture_output=True, encoding="utf-8", check=False
    )
    assert ended.stdout.split() == ["diagnose"], ended.stderr
