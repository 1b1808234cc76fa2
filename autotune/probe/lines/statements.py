"""The statements of a file: a call over several lines has its time on the one or the other of them, and an assignment
says where its result goes."""

from __future__ import annotations

import ast
import functools
import io
import linecache
import tokenize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any

MOST_BYTES = 500_000
"""Parsing a longer file takes seconds."""


def of_lines(lines: Iterable[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """(file, first line, last line) of each statement over several lines that one of `lines` (file, line) belongs to.

    Of a statement with a body it is the head alone. A file that cannot be read or parsed has none.
    """
    by_file: dict[str, set[int]] = {}
    for file, line in lines:
        by_file.setdefault(file, set()).add(line)
    return [
        (file, first, last)
        for file, numbers in by_file.items()
        for first, last in sorted(_spans(file))
        if any(first <= number <= last for number in numbers)
    ]


def _spans(file: str) -> Iterator[tuple[int, int]]:
    for node in _nodes(file):
        first, last = _span(node)
        if last > first:
            yield first, last


def _span(node: ast.stmt) -> tuple[int, int]:
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
    return node.lineno, max(node.lineno, last)


def _nodes(file: str) -> list[ast.stmt]:
    tree = parsed(file)
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)] if tree is not None else []


@functools.lru_cache(maxsize=32)
def parsed(file: str) -> ast.Module | None:
    """The syntax tree of a file; None where it cannot be read or parsed, or is too long."""
    try:
        if file.endswith(".ipynb"):  # the script of its cells: see notebook.py
            return ast.parse("".join(linecache.getlines(file)))
        with open(file, "rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            return None
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return ast.parse(data.decode(encoding))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


class Assignment:
    """A statement from line `first` to `last` that gives values to names and to attributes of names."""

    def __init__(self, first: int, last: int, targets: list[tuple[str, str]]) -> None:
        self.first = first
        self.last = last
        self._targets = targets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Assignment) and other.first == self.first

    def holds(self, line: int) -> bool:
        """Whether a line is one of the statement's."""
        return self.first <= line <= self.last

    def values(self, frame: FrameType) -> list[Any]:
        """What its targets hold in `frame` now; None for one that is gone."""
        names = frame.f_locals
        held = [(names.get(name), attribute) for name, attribute in self._targets]
        return [vars(one).get(attribute) if attribute and hasattr(one, "__dict__") else one for one, attribute in held]


def assignment(file: str, line: int) -> Assignment | None:
    """The assignment that the line is in; None where it is none, or gives a value to anything else, as an item."""
    for node in _nodes(file):
        first, last = _span(node)
        if first <= line <= last and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            flat = [each for one in targets for each in (one.elts if isinstance(one, ast.Tuple) else [one])]
            named = [_target(each) for each in flat]
            known = [each for each in named if each is not None]
            return Assignment(first, last, known) if len(known) == len(flat) else None
    return None


def _target(node: ast.expr) -> tuple[str, str] | None:
    """(name, "") or (name, attribute)."""
    if isinstance(node, ast.Name):
        return node.id, ""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id, node.attr
    return None
