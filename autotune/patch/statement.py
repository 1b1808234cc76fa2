"""Settings that a statement of one call makes for the whole process: torch.set_num_threads(4)."""

from __future__ import annotations

import ast
from typing import cast

from autotune.catalogue.dialects import functions
from autotune.errors import UsageError
from autotune.model.evidence import Value
from autotune.model.patch import Edit
from autotune.model.source import Scalar, Splice
from autotune.patch.journal import sha256
from autotune.syntax import edit_statement, python
from autotune.syntax.edit_python import last_name
from autotune.syntax.python import Source

_MARK = "()"
"""What stands behind the function in the key of an edit: "set_num_threads()" is what the function takes."""


def edit(data: bytes, file: str, function: str, value: Value) -> Edit:
    """The edit that adds the call of `function`. Raises UsageError, which says why, where none can be added."""
    splice = edit_statement.inserted(python.read(data, file), function, cast(Scalar, value))
    return Edit(file, sha256(data), key(function.rpartition(".")[2]), splice.span, "", splice.text)


def again(source: Source, edit: Edit) -> Splice:
    """The same statement for a file that changed."""
    return edit_statement.inserted(source, functions()[named(edit.key)], value(edit.new))


def key(name: str) -> str:
    return f"{name}{_MARK}"


def named(key: str) -> str:
    """The function whose value a key means; "" for a key of another kind."""
    name = key.removesuffix(_MARK)
    return name if name != key and name in functions() else ""


def name_of(node: ast.AST) -> str:
    """The function that a statement calls, where it takes a setting; "" for any other statement."""
    call = edit_statement.call_of(node)
    name = last_name(call.func) if call is not None else ""
    return name if name in functions() else ""


def taken(call: ast.Call) -> list[ast.expr]:
    """What a function takes: its first argument, by place or by name."""
    return [*call.args, *(one.value for one in call.keywords if one.arg)][:1]


def value(statement: str) -> Scalar:
    """The value of a statement that an edit adds, below its import where it brings that.

    Raises UsageError when it is none of ours.
    """
    try:
        call = edit_statement.call_of(ast.parse(statement).body[-1])
        return cast(Scalar, ast.literal_eval((taken(call) if call is not None else [])[0]))
    except (SyntaxError, ValueError, IndexError):
        raise UsageError("what is to be added is no call with a plain value") from None


def joined(first: str, second: str) -> str:
    """Two statements that are added at one place, one below the other."""
    newline = "\r\n" if "\r\n" in second else "\n"
    last = second.strip().rpartition("\n")[2]  # the import stands in the first
    return f"{first.rstrip()}{newline}{last}{second[len(second.rstrip()) :]}"
