from __future__ import annotations

import re

import pytest

from autotune.syntax.edit_members import BracketGroup, appended


def group(text: str) -> BracketGroup:
    """The members of (a b c): words, whatever stands between them."""
    start, end = text.index("(") + 1, text.rindex(")")
    blanked = re.sub("#[^\n]*", lambda found: " " * len(found[0]), text)
    return BracketGroup(start, end, [found.span() for found in re.finditer(r"\w+", blanked)], r"\#[^\n]*", "    ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("()", "(K)"),
        ("( )", "( K )"),
        ("  (\n  )", "  (\n      K\n  )"),
        ("(\n# c\n)", "(\n    K\n# c\n)"),
        ("(a)", "(a, K)"),
        ("(a,b)", "(a,b,K)"),
        ("(a, b, )", "(a, b, K, )"),
        ("(\n  a, b # c\n)", "(\n  a, b, K # c\n)"),
        ("(\n  a\n)", "(\n  a,\n  K\n)"),
        ("(\n  a, # c\n  b, # d\n)", "(\n  a, # c\n  b, # d\n  K,\n)"),
        ("(a,\n b)", "(a,\n b,\n K)"),
        ("(\n  a\n  , b\n)", "(\n  a\n  , b, K\n)"),
        ("(\n  a # c\n  ,\n)", "(\n  a # c\n  ,\n  K,\n)"),
        ("(\n  a # , )\n)", "(\n  a, # , )\n  K\n)"),
    ],
)
def test_a_member_is_appended_in_the_style_of_the_others(text: str, expected: str) -> None:
    start, end, new = appended(text, group(text), "K")
    assert text[:start] + new + text[end:] == expected
