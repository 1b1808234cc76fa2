"""No page leads to a file or a heading that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from markdown_pages import ROOT, anchor, anchors, code_spans, links, pages

ELSEWHERE = ("http://", "https://", "mailto:")
"""These are not looked up: tests need no network."""


def dead(page: str) -> Iterator[str]:
    """Links within the repository that lead nowhere."""
    for target in links(page):
        if target.startswith(ELSEWHERE):
            continue
        path, _, heading = unquote(target).partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        is_there = file.exists() and file.resolve().is_relative_to(ROOT)
        if not is_there or (heading and heading not in anchors(str(file.resolve().relative_to(ROOT)))):
            yield target


@pytest.mark.parametrize("page", pages())
def test_no_link_is_dead(page: str) -> None:
    assert list(dead(page)) == []


FILE = re.compile(r"(?:tests|benchmarks|autotune|fixtures|docs|rules|skills)/[\w./-]+\.(?:py|toml|md|json|sh)")
OF_A_NAME = "benchmarks/results/accuracy-blind-N.json"
"""Names with a place for another name in them."""


@pytest.mark.parametrize("page", [page for page in pages() if page != "CHANGELOG.md"])
def test_every_file_of_this_repository_that_a_page_names_is_there(page: str) -> None:
    """A changelog names old ones."""
    named = {span for span in code_spans(page) if FILE.fullmatch(span) and span not in OF_A_NAME}
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_pages_have_links_and_anchors() -> None:
    """A parser that finds none would pass the test above."""
    found = [link for page in pages() for link in links(page) if not link.startswith(ELSEWHERE)]
    assert len(found) > 300
    assert any("#" in link for link in found)
    assert {"a-rule", "the-layers"} <= anchors("CONTRIBUTING.md")


def test_a_dead_link_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = ["gone.md", "words.md", "words.md#words", "words.md#gone", "#tests", "../../outside.md"]
    monkeypatch.setattr("test_docs_links.links", lambda page: targets)
    assert list(dead("docs/fit.md")) == ["gone.md", "words.md#gone", "#tests", "../../outside.md"]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [("What it can't do", "what-it-cant-do"), ("`autotune fit`", "autotune-fit"), ("A, B & C", "a-b--c")],
)
def test_anchors_are_those_of_github(heading: str, expected: str) -> None:
    assert anchor(heading) == expected
