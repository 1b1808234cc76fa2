from __future__ import annotations

import pytest

from autotune.outlet import clean
from autotune.report.text.layout import StyledLine, cells, shorten, spread, to_copy, to_text, wrap


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n  b\tc", "a b c"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\u202eb\u200b", "a\\u202eb\\u200b"),
        ("bad \udcff", "bad \\udcff"),
        ("a\u2028b", "a b"),
    ],
    ids=["spaces", "escapes", "direction", "surrogate", "separator"],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("abc", 3), ("数据", 4), ("e\u0301", 1), ("", 0)])
def test_cells(text: str, expected: int) -> None:
    assert cells(text) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short.py", 8, "short.py"),
        ("/data/projects/train.py:23", 18, "/data...train.py:23"[:5] + "...rain.py:23"),
        ("数据数据数据数据", 9, "数...数据"),
    ],
)
def test_shorten_cuts_the_middle(text: str, limit: int, expected: str) -> None:
    assert shorten(text, limit) == expected
    assert cells(shorten(text, limit)) <= limit


def test_wrap_hangs_and_shortens_long_words() -> None:
    lines = wrap(f"one two {'p' * 40} three", 20, first="  fix  ", rest=" " * 7)
    assert [line.text for line in lines] == [
        "  fix  one two",
        f"       {'p' * 3}...{'p' * 7}",
        "       three",
    ]


def test_wrap_of_nothing_is_its_beginning() -> None:
    assert wrap("", 20, first="  fix  ") == [StyledLine("  fix")]


def test_spread_keeps_the_right_side() -> None:
    assert texts("1 DL001 name", "saves 18 min", 30) == ["1 DL001 name      saves 18 min"]
    assert texts("1 DL001 a longer name", "saves 18 min", 30) == ["1 DL001 a longer name", " " * 18 + "saves 18 min"]
    assert texts("n" * 40, "", 12) == ["nnn...nnnnnn"]


def texts(left: str, right: str, width: int) -> list[str]:
    return [line.text for line in spread(left, right, width)]


def test_what_is_to_be_copied_stays_whole() -> None:
    line = to_copy("type", f"pip install  {'w' * 80}\x1b[31m")
    assert to_text([line], False, 60) == f"  type   pip install {'w' * 80}\n"


def test_printed_styles_whole_lines() -> None:
    lines = [StyledLine("x ", "heading"), StyledLine("plain")]
    assert to_text(lines, False, 80) == "x\nplain\n"
    assert to_text(lines, True, 80) == "\x1b[1mx\x1b[0m\nplain\n"
