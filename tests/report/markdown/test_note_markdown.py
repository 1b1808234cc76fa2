"""Notes in Markdown, read back by a Markdown parser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token
from note_cases import HOSTILE, NOTES, hostile_reports, hostile_results

from autotune.model.report import Report
from autotune.report import render
from autotune.report.markdown.markup import escape_within, fenced

GFM = MarkdownIt("commonmark").enable(["table", "strikethrough"])
GOLDEN = Path(__file__).parents[2] / "builders" / "golden" / "note"
OURS = re.compile(r"</?code>|<details><summary>[^<]*</summary>|</details>")


def spread(text: str) -> list[Token]:
    tokens = GFM.parse(text)
    return [*tokens, *(child for token in tokens for child in token.children or ())]


@pytest.mark.parametrize("name", NOTES)
def test_golden(name: str) -> None:
    verb, result = NOTES[name]
    assert render(verb, result(), "markdown") == (GOLDEN / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NOTES)
def test_every_row_has_the_cells_of_its_head(name: str) -> None:
    verb, result = NOTES[name]
    text = render(verb, result(), "markdown")
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        assert len({row.count("|") for row in table.splitlines()}) == 1


@settings(max_examples=60, deadline=None)
@given(hostile_reports())
def test_no_text_becomes_markup(made: Report) -> None:
    nothing_is_markup(render("diagnose", made, "markdown"), num_diffs=bool(made.diff))


@pytest.mark.parametrize("name", HOSTILE)
def test_nor_does_one_of_what_verify_tune_and_fit_found(name: str) -> None:
    for verb, result in hostile_results(name):
        nothing_is_markup(render(verb, result, "markdown"), num_diffs=0)


def nothing_is_markup(text: str, num_diffs: int) -> None:
    tokens = spread(text)
    html = [token.content.strip() for token in tokens if token.type in ("html_block", "html_inline")]
    assert [each for each in html if not OURS.fullmatch(each)] == []
    kinds = {token.type for token in tokens}
    assert kinds.isdisjoint(
        {"link_open", "image", "em_open", "s_open", "code_inline", "code_block", "ordered_list_open"}
    )
    assert kinds.isdisjoint({"blockquote_open", "hr", "lheading_open"})
    fences = [token for token in tokens if token.type == "fence"]
    assert len(fences) == num_diffs
    assert all(token.info == "diff" for token in fences)
    assert [token.tag for token in tokens if token.type == "heading_open"].count("h1") == 1
    # GitHub makes links of bare addresses, which this parser leaves alone.
    outside = "".join(token.content for token in tokens if token.type == "inline")
    assert "://" not in outside and re.search(r"www\.", outside, re.IGNORECASE) is None
    assert "\x1b" not in text and "\u202e" not in text


def test_what_stands_at_the_start_of_a_paragraph_is_no_list() -> None:
    verb, result = NOTES["diagnose_full"]
    assert "+ 1 (training unchanged)" in render(verb, result(), "markdown")
    assert escape_within("1. - # x") == "1. - &#35; x"


def test_a_fence_is_longer_than_what_is_in_it() -> None:
    assert fenced("a ```` b", "diff") == "`````diff\na ```` b\n`````"


def test_a_note_is_dated_by_its_run() -> None:
    verb, result = NOTES["diagnose_full"]
    assert "**Date:** 2026-01-01 (UTC)" in render(verb, result(), "markdown")
