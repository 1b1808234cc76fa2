"""The printed result of check: golden files and the width that no text may break."""

from __future__ import annotations

import re

import click
import pytest
from check_builders import CASES, CHECKED, GOLDEN, NO_WORKERS, bundle, checked
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.model.checked import Checked
from autotune.model.scanned import Note
from autotune.report import render_check
from autotune.report.layout import cells


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    assert render_check(CASES[name](), "text") == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_colour_changes_nothing_but_the_colour(name: str) -> None:
    coloured = render_check(CASES[name](), "text", colour=True)
    assert click.unstyle(coloured) == render_check(CASES[name](), "text")
    assert coloured != click.unstyle(coloured)


@settings(max_examples=60, deadline=None)
@given(CHECKED, st.integers(min_value=60, max_value=100))
def test_arbitrary_text_breaks_neither_width_nor_terminal(made: Checked, width: int) -> None:
    text = render_check(made, "text", width=width)
    assert [line for line in text.split("\n") if cells(line) > width] == []
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]", text) is None
    assert text.encode("utf-8").endswith(b"\n")


def test_a_bundle_without_findings_takes_no_line() -> None:
    text = render_check(checked(bundle("quiet.py"), bundle("train.py", NO_WORKERS)), "text")
    assert "BUNDLE train.py\n" in text
    assert "quiet.py" not in text


def test_a_bundle_of_many_files_names_four() -> None:
    names = tuple(f"{number}.py" for number in range(9))
    text = render_check(checked(bundle("0.py", NO_WORKERS, files=names)), "text")
    assert "BUNDLE 0.py with 1.py, 2.py, 3.py, 4.py, and 4 more\n" in text


def test_many_notes_are_cut() -> None:
    notes = tuple(Note(f"{number}.json", "larger than 2 MB") for number in range(30))
    text = render_check(checked(notes=notes), "text")
    assert text.count("Note: ") == 11
    assert "Note: and 20 more\n" in text
