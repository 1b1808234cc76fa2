"""Settings that a statement of one call makes for the whole process: torch.set_num_threads(4)."""

from __future__ import annotations

import ast

from autotune.catalogue.dialects import functions
from autotune.model.source import Scalar, Splice
from autotune.syntax import edit_statement
from autotune.syntax.python import Source

_MARK = "()"
"""What stands behind the function in the key of an edit: "set_num_threads()" is what the function takes."""


def added_statement(source: Source, key: str, value: Scalar) -> Splice:
    """The statement that gives the function of `key` its value. Raises UsageError, which says why, where none can be
    added."""
    return edit_statement.inserted(source, functions()[function_of_key(key)], value, beside=tuple(functions().values()))


def statement_key(name: str) -> str:
    return f"{name}{_MARK}"


def function_of_key(key: str) -> str:
    """The function whose value a key means; "" for a key of another kind."""
    name = key.removesuffix(_MARK)
    return name if name != key and name in functions() else ""


def value_arguments(call: ast.Call) -> list[ast.expr]:
    """What a function takes: its first argument, by place or by name."""
    return [*call.args, *(one.value for one in call.keywords if one.arg)][:1]
