"""The Markdown of check, read back by a Markdown parser."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from check_builders import ANY, CASES, CHECKED, GOLDEN, NO_WORKERS, bundle, checked
from hypothesis import example, given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec.structs import replace

from autotune.model.checked import Checked
from autotune.outlet import clean
from autotune.report import findings as say
from autotune.report import render
from autotune.report.markdown.markup import escape

GFM = MarkdownIt("commonmark").enable(["table", "strikethrough"])
OURS = re.compile(r"</?code>|<details><summary>[^<]*</summary>|</details>")


def parsed(made: Checked) -> list[Token]:
    return GFM.parse(render("check", made, "markdown"))


def texts(tokens: list[Token]) -> list[str]:
    """What a reader sees of each inline token, without the tags."""
    inline = [token for token in tokens if token.type == "inline"]
    seen = ("text", "text_special")
    return ["".join(child.content for child in token.children or () if child.type in seen) for token in inline]


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    assert render("check", CASES[name](), "markdown") == (GOLDEN / f"{name}.md").read_text(encoding="utf-8")


@settings(max_examples=100, deadline=None)
@given(CHECKED)
def test_no_text_becomes_markup(made: Checked) -> None:
    tokens = parsed(made)
    spread = [*tokens, *(child for token in tokens for child in token.children or ())]
    html = [token.content.strip() for token in spread if token.type in ("html_block", "html_inline")]
    assert [each for each in html if not OURS.fullmatch(each)] == []
    kinds = {token.type for token in spread}
    assert kinds.isdisjoint({"link_open", "image", "em_open", "s_open", "code_inline", "fence", "code_block"})
    assert kinds.isdisjoint({"blockquote_open", "ordered_list_open", "hr", "lheading_open"})
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h2"]


@settings(max_examples=60, deadline=None)
@given(CHECKED)
def test_the_table_has_a_row_of_four_cells_for_each_finding(made: Checked) -> None:
    tokens = parsed(made)
    cells = texts([token for before, token in pairwise(tokens) if before.type == "td_open"])
    messages = [say.encodable(clean(each.finding.message)) for each in say.locate_findings(made)]
    assert cells[3::4] == messages
    assert len(cells) == 4 * len(messages)


@given(ANY)
@example("- x")
@example("1. x")
@example("_a_ snake_case __init__.py")
@example("a\\|b")
@example("> x")
def test_escaped_text_reads_as_it_was(text: str) -> None:
    shown = texts(GFM.parse(f"- {escape(text)}"))
    # Markdown has no NUL, and shows a replacement character for it and for lone surrogates.
    assert "".join(shown) == clean(text)


def test_a_word_with_underscores_stays_readable() -> None:
    assert escape("train_my_model.py") == "train_my_model.py"


def test_a_summary_is_cut_before_it_is_too_long() -> None:
    many = [replace(NO_WORKERS, message=f"message {number}" * 20) for number in range(3000)]
    text = render("check", checked(bundle("train.py", *many)), "markdown")
    assert len(text.encode()) < 2**20
    assert "and 2,800 more." in text
