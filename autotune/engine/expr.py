"""The language of rule files: a whitelist of Python's syntax, type-checked and compiled once, never run as Python.

and or not   < <= == != >= > (chained too)   in, not in a list of strings   + - * / // %
min max ceil floor round   surely(condition): false while it is unknown
0 1 true false "text"   names of facts and settings   limits.NAME
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from math import ceil, floor
from typing import Any

from msgspec import Struct

from autotune.catalogue import kinds
from autotune.engine import logic
from autotune.engine.logic import Lookup, Node
from autotune.engine.syntax import dotted, limits_in, parse, shown
from autotune.engine.value_kinds import NUMBER, NUMBERS, article, comparable, kind_of_limit, plain_kind, unknown
from autotune.errors import RuleError
from autotune.model.evidence import Value
from autotune.model.rule import Limit

COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
}
ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "ceil": logic.whole(ceil),
    "floor": logic.whole(floor),
    "round": logic.whole(round),
}
MOST_ANSWERS = 20_000
"""Answers that are remembered."""

SURELY = "surely"
WORDS = {"true": True, "false": False}


class CompiledTerm(Struct, frozen=True):
    """A compiled piece: its kind is bool, text, version, number or a unit; `names` are the facts it reads."""

    kind: str
    node: Node
    names: tuple[str, ...] = ()


class Expression(Struct, frozen=True):
    """A compiled expression; `names` are the facts and settings that it reads, `limits` the limits."""

    text: str
    kind: str
    node: Node
    names: tuple[str, ...]
    limits: tuple[str, ...]

    def evaluate(self, lookup: Lookup) -> tuple[Value | None, tuple[str, ...]]:
        """The value, or None and every missing fact that could still change the answer.

        Division by zero is unknown and names the facts of the divisor.
        """
        return _answer(self.node, self.names, *map(lookup, self.names))


@lru_cache(maxsize=MOST_ANSWERS, typed=True)
def _answer(node: Node, names: tuple[str, ...], *values: Value | None) -> tuple[Value | None, tuple[str, ...]]:
    """What a piece gives for these values of the names that it reads: most runs of a project have the same."""
    return node(dict(zip(names, values, strict=True)).get)


def compile_expression(text: str, limits: Mapping[str, Limit] | None = None) -> Expression:
    """The expression in `text`. Raises RuleError when it is outside the language or its types do not fit."""
    return _compiled(text, tuple((limits or {}).items()))


@cache
def _compiled(text: str, limits: tuple[tuple[str, Limit], ...]) -> Expression:
    tree = parse(text)
    part = _Compiler(dict(limits)).part(tree)
    return Expression(text, part.kind, part.node, part.names, limits_in(tree))


class _Compiler:
    """Turns allowed syntax into CompiledTerms; everything that it has no method for is refused."""

    def __init__(self, limits: Mapping[str, Limit]) -> None:
        self.limits = limits

    def part(self, tree: ast.expr) -> CompiledTerm:
        method = _ALLOWED.get(type(tree))
        if method is None:
            raise _refused(tree)
        return method(self, tree)

    def _constant(self, tree: ast.Constant) -> CompiledTerm:
        if isinstance(tree.value, str):
            return CompiledTerm("text", logic.constant(tree.value))
        if isinstance(tree.value, int) and not isinstance(tree.value, bool) and tree.value in (0, 1):
            return CompiledTerm(NUMBER, logic.constant(tree.value))
        raise RuleError(f"bare value {shown(tree)}: name it under [limits] with its unit and why")

    def _name(self, tree: ast.Name) -> CompiledTerm:
        if tree.id in WORDS:
            return CompiledTerm("bool", logic.constant(WORDS[tree.id]))
        return self._read(tree.id)

    def _attribute(self, tree: ast.Attribute) -> CompiledTerm:
        name = dotted(tree)
        if not name:
            raise _refused(tree)
        return self._limit(name.removeprefix("limits.")) if name.startswith("limits.") else self._read(name)

    def _limit(self, name: str) -> CompiledTerm:
        limit = self.limits.get(name)
        if limit is None:
            raise RuleError(f"unknown limit limits.{name}: write it under [limits.{name}]")
        return CompiledTerm(kind_of_limit(limit), logic.constant(limit.value))

    def _read(self, name: str) -> CompiledTerm:
        kind = kinds().get(name)
        if kind is None:
            raise RuleError(unknown(name))
        return CompiledTerm(plain_kind(kind), logic.name(name), (name,))

    def _boolop(self, tree: ast.BoolOp) -> CompiledTerm:
        parts = [self._bool(value) for value in tree.values]
        combine = logic.all_of if isinstance(tree.op, ast.And) else logic.any_of
        return CompiledTerm("bool", combine([part.node for part in parts]), _names(*parts))

    def _unaryop(self, tree: ast.UnaryOp) -> CompiledTerm:
        if not isinstance(tree.op, ast.Not):
            raise _refused(tree)
        part = self._bool(tree.operand)
        return CompiledTerm("bool", logic.apply(operator.not_, [part.node]), part.names)

    def _bool(self, tree: ast.expr) -> CompiledTerm:
        return _need("bool", self.part(tree), tree)

    def _compare(self, tree: ast.Compare) -> CompiledTerm:
        sides = [tree.left, *tree.comparators]
        pairs = [self._pair(sides[index], op, sides[index + 1]) for index, op in enumerate(tree.ops)]
        return CompiledTerm("bool", logic.all_of([pair.node for pair in pairs]), _names(*pairs))

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> CompiledTerm:
        if isinstance(op, ast.In | ast.NotIn):
            return self._member(left, op, right)
        tree = ast.Compare(left, [op], [right])
        if type(op) not in COMPARE:
            raise RuleError(f"`{shown(tree)}` is not allowed: compare with ==")
        parts = self.part(left), self.part(right)
        _check_kinds(tree, parts[0].kind, parts[1].kind)
        compare = COMPARE[type(op)]
        node = logic.apply(lambda *values: compare(*logic.same_length(*values)), [part.node for part in parts])
        return CompiledTerm("bool", node, _names(*parts))

    def _member(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> CompiledTerm:
        part = _need("text", self.part(left), left)
        if not isinstance(right, ast.List | ast.Tuple):
            raise RuleError(f'`{shown(right)}` must be a list of strings: name in ["a", "b"]')
        words = [_string(element) for element in right.elts]
        inside = isinstance(op, ast.In)
        return CompiledTerm("bool", logic.apply(lambda word: (word in words) == inside, [part.node]), part.names)

    def _binop(self, tree: ast.BinOp) -> CompiledTerm:
        if type(tree.op) not in ARITHMETIC:
            raise _refused(tree)
        left, right = (self._number(side) for side in (tree.left, tree.right))
        function, nodes = ARITHMETIC[type(tree.op)], [left.node, right.node]
        if isinstance(tree.op, ast.Div | ast.FloorDiv | ast.Mod):
            return CompiledTerm(NUMBER, logic.divide(function, nodes, right.names), _names(left, right))
        kind = _sum_kind(tree, left, right) if isinstance(tree.op, ast.Add | ast.Sub) else NUMBER
        return CompiledTerm(kind, logic.apply(function, nodes), _names(left, right))

    def _call(self, tree: ast.Call) -> CompiledTerm:
        name = dotted(tree.func)
        if name == SURELY and len(tree.args) == 1 and not tree.keywords:
            part = self._bool(tree.args[0])
            return CompiledTerm("bool", logic.surely(part.node), part.names)
        if name not in FUNCTIONS or tree.keywords:
            raise _refused(tree)
        parts = [self._number(each) for each in tree.args]
        fits = len(parts) >= 2 if name in ("min", "max") else len(parts) == 1
        if not fits:
            raise RuleError(f"`{shown(tree)}`: min and max take two numbers or more, the others one")
        node = logic.apply(FUNCTIONS[name], [part.node for part in parts])
        return CompiledTerm(parts[0].kind if len(parts) == 1 else NUMBER, node, _names(*parts))

    def _number(self, tree: ast.expr) -> CompiledTerm:
        part = self.part(tree)
        if part.kind not in NUMBERS:
            raise RuleError(f"`{shown(tree)}` is {article(part.kind)}, but arithmetic needs numbers")
        return part


_ALLOWED: Mapping[type[ast.expr], Callable[[_Compiler, Any], CompiledTerm]] = {
    ast.Constant: _Compiler._constant,
    ast.Name: _Compiler._name,
    ast.Attribute: _Compiler._attribute,
    ast.BoolOp: _Compiler._boolop,
    ast.UnaryOp: _Compiler._unaryop,
    ast.Compare: _Compiler._compare,
    ast.BinOp: _Compiler._binop,
    ast.Call: _Compiler._call,
}


def _refused(tree: ast.expr) -> RuleError:
    return RuleError(f"`{shown(tree)}` is not allowed in a rule")


def _need(kind: str, part: CompiledTerm, tree: ast.expr) -> CompiledTerm:
    if part.kind != kind:
        raise RuleError(f"`{shown(tree)}` is {article(part.kind)}, but {article(kind)} is needed here")
    return part


def _check_kinds(tree: ast.Compare, left: str, right: str) -> None:
    if not comparable(left, right):
        raise RuleError(f"`{shown(tree)}` compares {article(left)} with {article(right)}")
    if left in ("bool", "text") and not isinstance(tree.ops[0], ast.Eq | ast.NotEq):
        raise RuleError(f"`{shown(tree)}`: {article(left)} has no order; use == or !=")


def _sum_kind(tree: ast.expr, left: CompiledTerm, right: CompiledTerm) -> str:
    if not comparable(left.kind, right.kind):
        raise RuleError(f"`{shown(tree)}` adds {article(left.kind)} and {article(right.kind)}")
    return left.kind if right.kind == NUMBER else right.kind


def _string(tree: ast.expr) -> str:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        return tree.value
    raise RuleError(f"`{shown(tree)}` must be a string")


def _names(*parts: CompiledTerm) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in parts for name in part.names))
