"""Edits of Python files: a literal, or a keyword that a call gets. The file is parsed again, and never run."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left

from autotune.errors import UsageError
from autotune.model.evidence import Span
from autotune.model.source import Scalar, Splice
from autotune.syntax.edit_members import Group, appended
from autotune.syntax.edit_style import decimal, indent, integer, is_same, line_break, starts_line
from autotune.syntax.python import Source
from autotune.syntax.text import Text

_COMMENT = r"\#[^\r\n]*"
_QUOTES = re.compile(r"""[A-Za-z]{0,2}(['"])""")
_CLOSING = re.compile(rf"(?:\s|{_COMMENT})*\)")


def call_at(source: Source, line: int, name: str) -> ast.Call | None:
    """The call of `name` ("DataLoader", whatever stands before it) that starts at `line`, else the one around it.

    None when there is no such call, or more than one.
    """
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call) and _name(node.func) == name]
    starting = [call for call in calls if call.lineno == line]
    around = [call for call in calls if call.lineno <= line <= (call.end_lineno or call.lineno)]
    found = starting or around
    return found[0] if len(found) == 1 else None


def replaced(written: str, span: Span, value: Scalar) -> Splice:
    """The edit that puts the literal of `value` at `span`, where `written` stands."""
    try:
        if is_same(ast.literal_eval(written), value):
            return Splice(span, written)
    except (ValueError, SyntaxError):
        pass  # an expression: it has no value that is known here
    return Splice(span, _literal(value, written))


def keyword(source: Source, call: ast.Call, key: str, value: Scalar) -> Splice:
    """The edit that adds key=value to `call`, behind its last argument or before the **kwargs that end it.

    Raises UsageError when the call has that keyword, or when Python would read something else.
    """
    text = source.text
    if any(one.arg == key for one in call.keywords):
        raise text.error(f"{_name(call.func)} has {key} already", _place(text, source.span(call).start))
    new = f"{key}={_literal(value, _sample(source))}"
    start, end, written = _added(source, call, new)
    _confirm(source, call, text.text[:start] + written + text.text[end:], key, value)
    return Splice(text.span(start, end), written)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _literal(value: Scalar, old: str) -> str:
    if isinstance(value, float):
        return decimal(value, old)
    if isinstance(value, int) and not isinstance(value, bool):
        return integer(value, old)
    if not isinstance(value, str):
        return repr(value)
    quotes = _QUOTES.match(old)
    return _string(value, quotes[1] if quotes else '"')


def _string(value: str, quote: str) -> str:
    """In these quotes, unless the text has them and not the others; ASCII, whatever the file is encoded in."""
    other = "'" if quote == '"' else '"'
    quote = other if quote in value and other not in value else quote
    inner = ascii(value + '"')[1:-2].replace("\\'", "'")
    return quote + inner.replace(quote, f"\\{quote}") + quote


def _sample(source: Source) -> str:
    """The quote that most strings of the file that are no docstrings have."""
    found = re.findall(r"(?<!['\"])(['\"])[\w./-]+\1(?!['\"])", source.text.text)
    return max('"', "'", key=found.count)


def _added(source: Source, call: ast.Call, new: str) -> tuple[int, int, str]:
    text, whole = source.text.text, source.span(call)
    end = _place(source.text, whole.end) - 1
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    arguments.sort(key=lambda node: (node.lineno, node.col_offset))
    members = [_member(source, node, end) for node in arguments]
    first_open = next((at for at in range(len(arguments), 0, -1) if not _is_open(arguments[at - 1])), 0)
    if first_open < len(members):
        start = members[first_open][0]
        behind = f",{line_break(text, start)}{indent(text, start)}" if starts_line(text, start) else ", "
        return start, start, f"{new}{behind}"
    opening = text.rfind("(", 0, end) + 1 if not members else members[0][0]
    return appended(text, Group(opening, end, members, _COMMENT), new)


def _is_open(node: ast.AST) -> bool:
    return isinstance(node, ast.keyword) and node.arg is None


def _member(source: Source, node: ast.AST, closing: int) -> tuple[int, int]:
    """The places of an argument with the brackets around it."""
    span = source.span(node)
    start, end = _place(source.text, span.start), _place(source.text, span.end)
    while (found := _CLOSING.match(source.text.text, end)) and found.end() <= closing:
        end = found.end()
    return start, end


def _place(text: Text, byte: int) -> int:
    """The place of a byte of the file."""
    return bisect_left(range(len(text.text) + 1), byte, key=lambda place: text.span(place, place).start)


def _confirm(source: Source, call: ast.Call, after: str, key: str, value: Scalar) -> None:
    """Raises UsageError unless all that Python reads in addition is the keyword of the call."""
    place = _calls(source.tree).index(call)
    try:
        tree = ast.parse(after)
        changed = _calls(tree)[place]
        added = next(one for one in changed.keywords if one.arg == key)
        changed.keywords.remove(added)
        if is_same(ast.literal_eval(added.value), value) and ast.dump(tree) == ast.dump(source.tree):
            return
    except (SyntaxError, ValueError, LookupError, StopIteration):
        pass  # said below
    raise UsageError(f"{key} cannot be added to this call", where=f"{source.text.where}:{call.lineno}")


def _calls(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
