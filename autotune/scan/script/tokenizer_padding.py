"""Options that decide how a tokenizer pads: `padding = "max_length" if args.pad_to_max_length else False`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec.structs import replace

from autotune.model.scanned import WrittenValue
from autotune.pycode import values
from autotune.pycode.functions import bindings_of
from autotune.pycode.index import Binding
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView

KEY = "pad_to_max_length"
"""What the example scripts of transformers call such an option, and the dialect of torch does."""

FIXED = "max_length"


def padding_option(view: ScriptView, node: ast.expr) -> WrittenValue | None:
    """The option that makes the padding `node` a fixed width, true where it does; None where no option decides."""
    for test, yes, no in _conditional_values(view, node):
        ends = origins(view, test)
        given = values.value_of_option(view, ends[0].option) if len(ends) == 1 and ends[0].option is not None else None
        is_fixed = [_is_fixed(view, one) for one in (yes, no)]
        if given is not None and given.known and isinstance(given.value, bool) and is_fixed == [True, False]:
            return replace(given, key=KEY)
    return None


def _conditional_values(view: ScriptView, node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """The test, what holds where it does, and what else, of a conditional expression or of an if with an else."""
    found = bindings_of(view.index, node)
    for value in [node, *(one.value for one in found)]:
        if isinstance(value, ast.IfExp):
            yield value.test, value.body, value.orelse
    branches = [_branch(view, one) for one in found]
    if len(found) == 2 and None not in branches and branches[0] is branches[1]:
        outer = branches[0]
        inside = sorted(found, key=lambda one: one.node in getattr(outer, "orelse", ()))
        first, second = (one.value for one in inside)
        if isinstance(outer, ast.If) and inside[0].node in outer.body and first is not None and second is not None:
            yield outer.test, first, second


def _branch(view: ScriptView, binding: Binding) -> ast.AST | None:
    outer = view.index.parents.get(binding.node)
    return outer if isinstance(outer, ast.If) else None


def _is_fixed(view: ScriptView, node: ast.expr) -> bool | None:
    found = values.written_value(view, node)
    return found.value == FIXED if found.known else None
