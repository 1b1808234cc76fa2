"""The note of a diagnosis: what it shortens, so that a page stays small."""

from __future__ import annotations

import pytest
import report_cases
from msgspec.structs import replace

from autotune.report import render
from autotune.report.note.blocks import Listing, Section
from autotune.report.note.diagnose import LONGEST_DIFF, WIDEST_DIFF, note

LARGEST = 150_000
"""Bytes of a page without a trace."""


def shown(diff: str) -> str:
    made = replace(report_cases.full(), diff=diff)
    (found,) = [
        one
        for section in note(made).blocks
        if isinstance(section, Section)
        for one in section.blocks
        if isinstance(one, Listing) and one.language == "diff"
    ]
    return found.text


def test_a_diff_of_usual_size_stays_as_it_is() -> None:
    diff = f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{'a' * (WIDEST_DIFF - 1)}\n+b\n"
    assert shown(diff) == diff
    assert shown("x\n" * LONGEST_DIFF) == "x\n" * LONGEST_DIFF


def test_a_notebook_of_one_line_is_cut() -> None:
    assert shown(f"-{'a' * 2_000_000}\n+b\n") == f"-{'a' * (WIDEST_DIFF - 1)}...\n+b\n"


def test_of_many_lines_the_first_are_shown_and_how_many_more() -> None:
    *kept, last = shown("+x\n" * 5000).splitlines()
    assert kept == ["+x"] * LONGEST_DIFF
    assert last == "... 4,880 more lines"


@pytest.mark.parametrize("diff", [f"-{'<' * 2_000_000}\n", f"-{'<' * 1000}\n" * 5000])
def test_the_page_is_as_small_as_promised(diff: str) -> None:
    assert len(render("diagnose", replace(report_cases.full(), diff=diff), "html").encode()) <= LARGEST
