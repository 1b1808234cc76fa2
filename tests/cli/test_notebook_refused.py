"""Verbs that run no notebook say so, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.cli.script_command import resolve_command
from autotune.errors import UsageError


@pytest.mark.parametrize("verb", ["verify", "tune", "fit"])
@pytest.mark.parametrize("words", ["nb.ipynb", "nb.ipynb --out x.py", "python nb.ipynb", "LR=1 torchrun nb.ipynb"])
def test_a_notebook_is_refused(words: str, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"autotune {verb} runs scripts") as caught:
        resolve_command(tuple(words.split()), verb, None)
    assert "autotune diagnose nb.ipynb" in caught.value.to_do


def test_a_script_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("train.py", "--out", "x.ipynb")
    assert resolve_command(words, "tune", None).words == words
