"""verify and tune as documents, of real runs: what a reader looks for is in them, and HTML needs nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_tune_runs import SCRIPT

pytestmark = [pytest.mark.train, pytest.mark.long, pytest.mark.timeout(1500)]

LARGEST = 150_000
"""Bytes of a page without a trace."""


def autotune(root: Path, *words: str) -> str:
    done = subprocess.run(
        (sys.executable, "-m", "autotune", *words), cwd=root, capture_output=True, text=True, check=False, timeout=1300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").write_text("")
    (folder / "train.py").write_text(SCRIPT)
    autotune(folder, "diagnose", "--no-lock", "--no-what-ifs", "--quiet", "train.py")
    return folder


def is_whole_page(page: str) -> bool:
    """Whether it is one page that loads nothing and is no larger than promised."""
    addresses = re.findall(r"""(?:src|href)=["']([^"']*)|url\(([^)]*)\)|@import|<script""", page)
    return page.startswith("<!doctype html>") and len(page.encode()) <= LARGEST and not addresses


def headings(page: str) -> list[str]:
    return re.findall(r"<h[12][^>]*>(.*?)</h[12]>", page)


def test_a_verification_is_a_note_and_a_page(root: Path) -> None:
    note = autotune(root, "verify", "--no-lock", "--quiet", "--budget", "20m", "--format", "markdown")
    assert note.startswith("# Training speed: before and after, measured\n")
    assert "**Command:** <code>train.py</code>" in note
    assert re.search(r"^\*\*(Faster: \d|Cannot tell|No difference|Slower)", note, re.MULTILINE)
    assert re.search(r"^\| step, median of the runs \| [\d.]+ m?s \| [\d.]+ m?s \| ", note, re.MULTILINE)
    assert re.search(r"^\| <code>loader.num_workers</code> \| 0 \| [1-9]", note, re.MULTILINE)
    if "**Faster:" in note:
        assert re.search(r"^- \[ \] \*\*Speed:\*\* [\d.]+ m?s per step", note, re.MULTILINE)
        assert "autotune apply --diff" in note
    page = autotune(root, "report", "--verification", "--format", "html")
    assert is_whole_page(page)
    assert headings(page)[0] == "Training speed: before and after, measured"
    for number in re.findall(r"^\| step, median of the runs \| ([\d.]+ m?s) \| ([\d.]+ m?s) ", note, re.MULTILINE)[0]:
        assert number in page
    assert {"Before and after", "Changes", "What it rests on"} < set(headings(page))
    assert ("Next" in headings(page)) == ("## Next" in note)
    assert "<svg" in page and page.count("<table") == len(re.findall(r"^\| --- ", note, re.MULTILINE))


def test_a_search_is_a_page_and_a_note(root: Path) -> None:
    search = ("tune", "--no-lock", "--quiet", "--budget", "20m", "--trials", "3", "--knobs", "workers")
    page = autotune(root, *search, "--format", "html", "train.py")
    assert is_whole_page(page)
    assert headings(page)[0] == "Training speed: a search of settings"
    assert "Trials" in headings(page)
    assert "<svg" in page
    note = autotune(root, "report", "last", "--format", "markdown")
    rows = re.findall(r"^\| (\d+) \| ([\d.]+ m?s) \| ([\d.]+x) \|", note, re.MULTILINE)
    assert [number for number, *_ in rows] == [str(number) for number in range(len(rows))]
    assert len(rows) >= 2
    assert all(step in page and speedup in page for _, step, speedup in rows)
