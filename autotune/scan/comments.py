"""`# autotune: ignore[DL001] reason`: findings that a person has looked at, and why they may stay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from autotune.model.scanned import IgnoreComment, ScanNote
from autotune.model.source import Comment

_MARK = re.compile(r"autotune:\s*ignore(?P<file>-file)?\s*(?:\[(?P<rules>[^\]]*)\])?\s*(?P<reason>.*)")


def ignore_comments(comments: Sequence[Comment], file: str) -> tuple[tuple[IgnoreComment, ...], tuple[ScanNote, ...]]:
    """The rules that the comments of `file` silence, and a note for each comment that is not honoured.

    A comment on a line of its own is for the next line that is none, and for its own: what a config lacks is reported
    at its first line. Without rules or without a reason it is not honoured: a reader cannot judge it later.
    """
    own_lines = {comment.line for comment in comments if comment.is_own_line}
    found: list[IgnoreComment] = []
    notes: list[ScanNote] = []
    for comment in comments:
        match = _MARK.match(comment.text.strip())
        if match is None:
            continue
        rules = [rule.strip().upper() for rule in (match["rules"] or "").split(",") if rule.strip()]
        if rules and match["reason"]:
            lines = (0, 0) if match["file"] else (comment.line, _target(comment, own_lines))
            found += [IgnoreComment(file, *lines, rule, match["reason"].strip()) for rule in rules]
        else:
            missing = "it gives no reason" if rules else "it names no rule"
            how = f'write "autotune: ignore{match["file"] or ""}[{",".join(rules) or "DL001"}] and the reason"'
            notes.append(ScanNote(f"{file}:{comment.line}", f"this comment suppresses nothing: {missing}; {how}"))
    return tuple(found), tuple(notes)


def _target(comment: Comment, own_lines: Iterable[int]) -> int:
    line = comment.line
    while line in own_lines:
        line += 1
    return line
