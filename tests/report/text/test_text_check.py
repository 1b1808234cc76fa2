"""The printed result of check: golden files and the width that no text may break."""

from __future__ import annotations

import re

import click
import pytest
from check_builders import (
    CASES,
    CHECKED,
    FULL_PRECISION,
    GOLDEN,
    NO_WORKERS,
    SAVES,
    WORKERS,
    bundle,
    checked,
    finding,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.model.checked import Checked
from autotune.model.evidence import Location
from autotune.model.finding import Finding, SettingChange
from autotune.model.rule import Effect
from autotune.model.scanned import ScanNote
from autotune.report import render
from autotune.report.text.layout import cells


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    assert render("check", CASES[name](), "text") == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_colour_changes_nothing_but_the_colour(name: str) -> None:
    coloured = render("check", CASES[name](), "text", colour=True)
    assert click.unstyle(coloured) == render("check", CASES[name](), "text")
    assert coloured != click.unstyle(coloured)


@settings(max_examples=60, deadline=None)
@given(CHECKED, st.integers(min_value=60, max_value=100))
def test_arbitrary_text_breaks_neither_width_nor_terminal(made: Checked, width: int) -> None:
    text = render("check", made, "text", width=width)
    assert [line for line in text.split("\n") if cells(line) > width] == []
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]", text) is None
    assert text.encode("utf-8").endswith(b"\n")


def test_a_bundle_without_findings_takes_no_line() -> None:
    text = render("check", checked(bundle("quiet.py"), bundle("train.py", NO_WORKERS)), "text")
    assert "BUNDLE train.py\n" in text
    assert "quiet.py" not in text


def test_a_bundle_of_many_files_names_four() -> None:
    names = tuple(f"{number}.py" for number in range(9))
    text = render("check", checked(bundle("0.py", NO_WORKERS, files=names)), "text")
    assert "BUNDLE 0.py with 1.py, 2.py, 3.py, 4.py, and 4 more\n" in text


def test_many_notes_are_cut() -> None:
    notes = tuple(ScanNote(f"{number}.json", "larger than 2 MB") for number in range(30))
    text = render("check", checked(notes=notes), "text")
    assert text.count("Note: ") == 11
    assert "Note: and 20 more\n" in text


SHARED = """SEVERAL BUNDLES
high DL001 in 2 files: batches prepared in the training process
  seen   0 workers
  at     a.py:3, b.py:3, b.py:7
  fix    num_workers: 0 -> 4 (same training)
  note   mind this

BUNDLE a.py
a.py:9 low CK003 optimizer saved with every checkpoint
  seen   kept
"""


def test_what_several_bundles_share_is_said_once_and_the_gravest_first() -> None:
    def workers(name: str, *places: Location) -> Finding:
        here = Location(name, 3)
        change = SettingChange("loader.num_workers", 0, 4, Effect.EQUIVALENT, here, "num_workers", "mind this")
        return finding(WORKERS, "0 workers", here, change, places=places)

    first = bundle("a.py", finding(SAVES, "kept", Location("a.py", 9)), workers("a.py"))
    text = render("check", checked(first, bundle("b.py", workers("b.py", Location("b.py", 7)))), "text")
    assert text.startswith(SHARED)
    assert "3 findings (2 high, 1 low)" in text


def test_bundles_come_by_their_gravest_finding() -> None:
    text = render("check", checked(bundle("a.py", FULL_PRECISION), bundle("b.py", NO_WORKERS)), "text")
    assert text.index("BUNDLE b.py") < text.index("BUNDLE a.py")


def test_a_group_names_a_bounded_number_of_places_and_remedies() -> None:
    def cured(number: int) -> Finding:
        return finding(WORKERS, "0 workers", Location(f"{number}.py", 1), advice=(f"cure {number}",))

    text = render("check", checked(*(bundle(f"{number}.py", cured(number)) for number in range(30))), "text")
    assert "DL001 in 30 files" in text
    assert ".py:1, and 10 more" in text.replace("\n         ", " ")
    assert text.count("cure") == 4
    assert "  fix    and 26 more\n" in text
