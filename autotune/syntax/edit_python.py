"""Edits of Python files: a literal, or a keyword that a call gets. The file is parsed again, and never run."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left

from autotune.errors import UsageError
from autotune.model.evidence import Span
from autotune.model.source import Scalar, Splice
from autotune.syntax.edit_members import BracketGroup, appended
from autotune.syntax.edit_style import decimal, indent, integer, is_same, line_break, starts_line
from autotune.syntax.python import Source, calls_of, last_name
from autotune.syntax.text import Text

_COMMENT = r"\#[^\r\n]*"
_STEP = "    "
_QUOTES = re.compile(r"""[A-Za-z]{0,2}(['"])""")
_CLOSING = re.compile(rf"(?:\s|{_COMMENT})*\)")


def call_at(source: Source, line: int, name: str) -> ast.Call | None:
    """The call of `name` ("DataLoader", whatever stands before it) that starts at `line`, else the one around it.

    None when there is no such call, or more than one.
    """
    calls = calls_of(source, name)
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
    return Splice(span, literal(value, written))


def keyword(source: Source, call: ast.Call, key: str, value: Scalar) -> Splice:
    """The edit that adds key=value to `call`, behind its last argument or before the **kwargs that end it.

    A dotted key is a key of a dict: fsdp_config={"version": 2}, into which it goes when the call has that. Raises
    UsageError when the call has the key, or when Python would read something else.
    """
    head, *below = key.split(".")
    given = next((one.value for one in call.keywords if one.arg == head), None)
    new = literal(value, sample(source))
    if given is None:
        start, end, written = _argument(source, call, f"{head}={_nested(below, new, source)}")
    elif isinstance(given, ast.Dict) and len(below) == 1 and below[0] not in _keys(given):
        start, end, written = _item(source, given, f"{literal(below[0], sample(source))}: {new}")
    else:
        raise UsageError(f"{last_name(call.func)} has {head} already", where=f"{source.text.where}:{call.lineno}")
    after = source.text.text[:start] + written + source.text.text[end:]
    _confirm(source, _parsed(source, after), call, key, value)
    return Splice(source.text.span(start, end), written)


def literal(value: Scalar, old: str) -> str:
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


def sample(source: Source) -> str:
    """The quote that most strings of the file that are no docstrings have."""
    found = re.findall(r"(?<!['\"])(['\"])[\w./-]+\1(?!['\"])", source.text.text)
    return max('"', "'", key=found.count)


def _nested(keys: list[str], value: str, source: Source) -> str:
    opening = "".join(f"{{{literal(key, sample(source))}: " for key in keys)
    return f"{opening}{value}{'}' * len(keys)}"


def _keys(given: ast.Dict) -> list[object]:
    return [key.value for key in given.keys if isinstance(key, ast.Constant)]


def _item(source: Source, given: ast.Dict, new: str) -> tuple[int, int, str]:
    """Where to write what so that a dict has one more item."""
    whole = source.span(given)
    closing = _place(source.text, whole.end) - 1
    starts = [value if key is None else key for key, value in zip(given.keys, given.values, strict=True)]
    members = [
        (_place(source.text, source.span(start).start), _member(source, value, closing)[1])
        for start, value in zip(starts, given.values, strict=True)
    ]
    return appended(
        source.text.text, BracketGroup(_place(source.text, whole.start) + 1, closing, members, _COMMENT, _STEP), new
    )


def _argument(source: Source, call: ast.Call, new: str) -> tuple[int, int, str]:
    """Where to write what so that a call has one more argument: start, end and the text for what is between them."""
    text = source.text.text
    end = _place(source.text, source.span(call).end) - 1
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    arguments.sort(key=lambda node: (node.lineno, node.col_offset))
    members = [_member(source, node, end) for node in arguments]
    first_open = next((at for at in range(len(arguments), 0, -1) if not _is_open(arguments[at - 1])), 0)
    if first_open < len(members):
        start = members[first_open][0]
        behind = f",{line_break(text, start)}{indent(text, start)}" if starts_line(text, start) else ", "
        return start, start, f"{new}{behind}"
    opening = text.rfind("(", 0, end) + 1 if not members else members[0][0]
    return appended(text, BracketGroup(opening, end, members, _COMMENT, _STEP), new)


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


def _parsed(source: Source, after: str) -> ast.Module:
    try:
        return ast.parse(after)
    except SyntaxError as error:
        raise UsageError(f"this file cannot be edited here: {error.msg}", where=source.text.where) from error


def _confirm(source: Source, tree: ast.Module, call: ast.Call, key: str, value: Scalar) -> None:
    """Raises UsageError unless all that Python reads in addition is `key` of the call. Takes it out of `tree`."""
    changed = _calls(tree)[_calls(source.tree).index(call)]
    head, *below = key.split(".")
    added = next((one for one in changed.keywords if one.arg == head), None)
    found: object = added and _taken_out(changed, added, any(one.arg == head for one in call.keywords))
    wanted: object = value
    for part in reversed(below):
        wanted = {part: wanted}
    if not is_same(found, wanted) or ast.dump(tree) != ast.dump(source.tree):
        raise UsageError(f"{key} cannot be added to this call", where=f"{source.text.where}:{call.lineno}")


def _taken_out(call: ast.Call, added: ast.keyword, is_item: bool) -> object:
    """Remove the keyword, or the last item of its dict; return what it was."""
    if is_item and isinstance(added.value, ast.Dict):
        item = ast.Dict([added.value.keys.pop()], [added.value.values.pop()])
        return _evaluated(item)
    call.keywords.remove(added)
    return _evaluated(added.value)


def _evaluated(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _calls(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
