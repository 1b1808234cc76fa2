"""The width of a report is that of the reader's terminal."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from autotune.cli import output


@pytest.mark.parametrize(("terminal", "expected"), [(60, 60), (100, 100), (250, output.WIDEST)])
def test_a_terminal_tells_its_width(terminal: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda fallback: os.terminal_size((terminal, 24)))
    assert output.columns() == expected


def test_a_pipe_and_a_file_have_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (output.columns(), output.columns(default=100)) == (output.WIDTH, 100)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert output.columns(Path("report.txt")) == output.WIDTH


@pytest.mark.parametrize(("lines", "expected"), [(3, "verdict\n\na\nb\n\nverdict\n"), (24, "verdict\n\na\nb\n")])
def test_a_short_terminal_ends_with_the_verdict(lines: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "verdict\n\na\nb\n"
    assert output.verdict_last(text) == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda fallback: os.terminal_size((80, lines)))
    assert output.verdict_last(text) == expected
    assert output.verdict_last(text, Path("report.txt")) == text
