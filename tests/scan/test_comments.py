from __future__ import annotations

import pytest

from autotune.model.scanned import IgnoreComment
from autotune.model.source import Comment
from autotune.scan.comments import ignore_comments


def on_line(text: str, line: int = 3, *, is_own_line: bool = False) -> Comment:
    return Comment(line, text, is_own_line)


def test_a_comment_behind_code_is_for_its_line() -> None:
    found, notes = ignore_comments([on_line(" autotune: ignore[DL001] the data is in memory")], "train.py")
    assert found == (IgnoreComment("train.py", 3, 3, "DL001", "the data is in memory"),)
    assert notes == ()


def test_a_comment_on_its_own_line_is_for_it_and_the_next_line_of_code() -> None:
    comments = [
        on_line("autotune: ignore[DL001] small", 3, is_own_line=True),
        on_line("the loader", 4, is_own_line=True),
        on_line("not reached", 5),
    ]
    assert [(each.line, each.end_line) for each in ignore_comments(comments, "a.py")[0]] == [(3, 5)]


def test_one_comment_silences_several_rules_in_any_case() -> None:
    found, _ = ignore_comments([on_line("autotune: ignore[ dl001,SY001 ] small")], "a.py")
    assert [(each.rule, each.reason) for each in found] == [("DL001", "small"), ("SY001", "small")]


def test_a_file_is_line_0_wherever_the_comment_stands() -> None:
    found, _ = ignore_comments([on_line("autotune: ignore-file[EN012] generated", 40)], "a.py")
    assert found == (IgnoreComment("a.py", 0, 0, "EN012", "generated"),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("autotune: ignore[DL001]", "it gives no reason"),
        ("autotune: ignore[DL001]   ", "it gives no reason"),
        ("autotune: ignore", "it names no rule"),
        ("autotune: ignore the data is in memory", "it names no rule"),
        ("autotune: ignore[] the data is in memory", "it names no rule"),
        ("autotune: ignore-file[SY001]", "it gives no reason"),
    ],
)
def test_without_rule_or_reason_it_is_noted_and_not_honoured(text: str, why: str) -> None:
    found, notes = ignore_comments([on_line(text)], "a.py")
    assert found == ()
    assert [(note.where, why in note.why) for note in notes] == [("a.py:3", True)]


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("autotune: ignore[SY001, EN012]", 'write "autotune: ignore[SY001,EN012] and the reason"'),
        ("autotune: ignore-file[SY001]", 'write "autotune: ignore-file[SY001] and the reason"'),
        ("autotune: ignore", 'write "autotune: ignore[DL001] and the reason"'),
    ],
)
def test_the_note_says_how_to_write_this_comment(text: str, how: str) -> None:
    assert ignore_comments([on_line(text)], "a.py")[1][0].why.endswith(f"; {how}")


@pytest.mark.parametrize(
    "text", ["", "autotune", "see autotune: ignore[DL001] x", "noqa: DL001", "type: ignore[DL001]"]
)
def test_other_comments_say_nothing(text: str) -> None:
    assert ignore_comments([on_line(text)], "a.py") == ((), ())
