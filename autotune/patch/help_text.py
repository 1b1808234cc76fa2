"""The default of an option where its help spells it: "(default: 64)" is edited with `default=64`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec.structs import replace

from autotune.model.evidence import Span
from autotune.model.patch import Edit
from autotune.patch.key_locations import key_locations, values_of_key
from autotune.syntax import python
from autotune.syntax.python import Source

_MARK = " help"
"""What stands behind the option in the key of such an edit."""

_SPELLED = rb"(?i:\bdefaults?(?:\s+value)?(?:\s+is\s|\s+to\s|\s*[:=])|[(\[]default\s)\s*(%b)(?![\w-])(?![.,]\w)"
_SAFE = re.compile(r"[\w.,:/+-]+", re.ASCII)


def help_edits(data: bytes, edit: Edit) -> Iterator[Edit]:
    """The edit of the help of an option, whose default `edit` changes; none where that is spelled in no help."""
    if not edit.key.startswith("-"):
        return
    source = python.read(data, edit.file)
    for old, new in ((edit.old, edit.new), (_unquoted(edit.old), _unquoted(edit.new))):
        of_help = replace(edit, key=f"{edit.key}{_MARK}", old=old, new=new)
        if _SAFE.fullmatch(new) and help_span(data, source, of_help) is not None:
            yield of_help
            return


def is_help_default(edit: Edit) -> bool:
    """Whether `edits` made it."""
    return edit.key.endswith(_MARK)


def help_span(data: bytes, source: Source, edit: Edit) -> Span | None:
    """Where the help spells the old default; None where it does not."""
    defaults = key_locations(source, replace(edit, key=edit.key.removesuffix(_MARK)))
    default = defaults[edit.occurrence - 1].span if edit.occurrence <= len(defaults) else None
    return None if default is None else _spelled_default(data, source, default, edit.old)


def _spelled_default(data: bytes, source: Source, default: Span, value: str) -> Span | None:
    """The one place in the help beside a default that says `value`."""
    pattern = _SPELLED % re.escape(value.encode())
    helps = [source.span(text) for text in _helps(source, default)]
    found = [match for span in helps for match in re.compile(pattern).finditer(data, span.start, span.end)]
    return Span(*found[0].span(1)) if len(found) == 1 and value else None


def _helps(source: Source, default: Span) -> Iterator[ast.expr]:
    """The strings for help in the call that has the default: help="...", or metadata={"help": "..."} of a field."""
    for call in (node for node in ast.walk(source.tree) if isinstance(node, ast.Call)):
        values = {one.arg: one.value for one in call.keywords}
        if any(source.span(one) == default for one in (*call.args, *values.values())):
            texts = [*values_of_key(values.get("metadata"), "help"), values.get("help")]
            yield from (text for text in texts if isinstance(text, ast.Constant))


def _unquoted(literal: str) -> str:
    """The text of a string without its quotes; anything else as it is."""
    try:
        value = ast.literal_eval(literal)
    except (ValueError, SyntaxError):
        return literal
    return value if isinstance(value, str) else literal
