"""Notes as HTML, read back by a parser: well formed, nothing loaded, nothing run, for a screen reader as well."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from note_cases import HOSTILE, NOTES, hostile_reports, hostile_results
from report_builders import finding, recommendation, report, rule, run, step

from autotune.model.report import Report
from autotune.outlet import clean
from autotune.report import render
from autotune.report.html import page

GOLDEN = Path(__file__).parents[2] / "builders" / "golden" / "note"
LARGEST = 150_000
VOID = {"meta", "rect", "line", "circle"}
_TAGS = (
    "html head meta title style body main h1 h2 h3 p b code div section figure svg desc rect line circle text ul li"
    " span table thead tbody tr th td details summary pre"
)
_ATTRIBUTES = (
    "lang charset name content http-equiv class id role aria-labelledby aria-hidden aria-label tabindex scope width"
    " height x y x1 y1 x2 y2 cx cy r text-anchor"
)
TAGS, ATTRIBUTES = set(_TAGS.split()), set(_ATTRIBUTES.split())
"""Those of the template: none of them loads or runs anything."""


class Tree(HTMLParser):
    """Tags with their attributes, in order; texts; what stays open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if not (tag in VOID and self.get_starttag_text().endswith("/>")) and tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)


def written(name: str) -> str:
    verb, result = NOTES[name]
    return render(verb, result(), "html")


@pytest.mark.parametrize("name", NOTES)
def test_golden_below_the_style(name: str) -> None:
    assert written(name).partition("</style>")[2] == (GOLDEN / f"{name}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NOTES)
def test_it_is_one_small_file_that_loads_and_runs_nothing(name: str) -> None:
    text = written(name)
    tree = Tree(text)
    assert len(text.encode()) <= LARGEST
    assert tree.open == []
    assert {tag for tag, _ in tree.tags} <= TAGS
    assert {attribute for _, given in tree.tags for attribute in given} <= ATTRIBUTES
    assert re.search(r"@import|url\(|https?:", text) is None
    policy = next(given["content"] for _, given in tree.tags if given.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'")


@pytest.mark.parametrize("name", NOTES)
def test_a_screen_reader_finds_headings_and_what_pictures_show(name: str) -> None:
    tree = Tree(written(name))
    levels = [int(tag[1]) for tag, _ in tree.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = Counter(given["id"] for _, given in tree.tags if "id" in given)
    assert all(count == 1 for count in ids.values())
    pictures = [given for tag, given in tree.tags if tag == "svg" and "aria-hidden" not in given]
    assert all(given["role"] == "img" and set(str(given["aria-labelledby"]).split()) <= set(ids) for given in pictures)
    if name.endswith("full"):
        assert pictures


@pytest.mark.parametrize("name", NOTES)
def test_every_shape_has_a_colour(name: str) -> None:
    text = written(name)
    style = text.partition("<style>")[2].partition("</style>")[0]
    shapes = [given for tag, given in Tree(text).tags if tag in ("rect", "line", "circle")]
    assert {str(given["class"]) for given in shapes} <= set(re.findall(r"\.([\w]+)", style))


def test_both_themes_and_print_are_styled() -> None:
    style = (Path(page.__file__).parent / "page.css").read_text(encoding="utf-8")
    assert "prefers-color-scheme:dark" in style and "@media print" in style


def luminance(colour: str) -> float:
    parts = colour.lstrip("#")
    full = "".join(two * 2 for two in parts) if len(parts) == 3 else parts
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (int(full[at : at + 2], 16) / 255 for at in (0, 2, 4))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_texts_and_shapes_stand_out_in_both_themes(theme: int) -> None:
    """WCAG 2.2: 4.5 to 1 for text, 3 to 1 for what a picture shows."""
    style = (Path(page.__file__).parent / "page.css").read_text(encoding="utf-8")
    found = re.findall(r":root\{([^}]*--page[^}]*)\}", style)[theme]
    colours = dict(re.findall(r"--([\w]+):(#\w+)", found))
    for name in ("ink", "soft", "good", "bad"):
        assert min(contrast(colours[name], colours[on]) for on in ("page", "panel")) >= 4.5, name
    for name in (one for one in colours if re.fullmatch(r"c\d", one)):
        assert contrast(colours[name], colours["page"]) >= 3, name


@settings(max_examples=60, deadline=None)
@given(hostile_reports())
def test_no_text_becomes_markup(made: Report) -> None:
    text = render("diagnose", made, "html")
    tree = Tree(text)
    assert tree.open == []
    assert {tag for tag, _ in tree.tags} <= TAGS
    assert {attribute for _, given in tree.tags for attribute in given} <= ATTRIBUTES
    assert "\x1b" not in text and "\u202e" not in text


@pytest.mark.parametrize("name", HOSTILE)
def test_nor_does_one_of_what_verify_tune_and_fit_found(name: str) -> None:
    for verb, result in hostile_results(name):
        text = render(verb, result, "html")
        tree = Tree(text)
        assert tree.open == []
        assert {tag for tag, _ in tree.tags} <= TAGS
        assert {attribute for _, given in tree.tags for attribute in given} <= ATTRIBUTES
        assert "\x1b" not in text and "\u202e" not in text
        assert " ".join(clean(name).split()) in " ".join("".join(tree.texts).split())


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_shown_as_it_is(name: str) -> None:
    made = report(recommendation(1, finding(rule(), name)), run=run(), step=step(forward=1.0))
    shown = " ".join("".join(Tree(render("diagnose", made, "html")).texts).split())
    assert " ".join(clean(name).split()) in shown
