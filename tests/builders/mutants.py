"""Other rules that examples must tell from the rule: comparisons flipped, and / or swapped, limits shifted ..."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from itertools import count

from msgspec.structs import replace

from autotune.engine.examples import run_example
from autotune.engine.expr import SURELY, compile_expression
from autotune.engine.syntax import dotted, parse
from autotune.model.evidence import Value
from autotune.model.rule import Limit, Rule

NEIGHBOUR: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


def survivors(rule: Rule) -> list[str]:
    """One line for every mutant, of the rule or its [static] part, that does with each example what the rule does."""
    # What takes a finding back is the same in both parts: the rule's own examples are of it.
    part = replace(rule.as_static(), refuted_by="")
    static = [] if rule.static is None else [f"[static] {what}" for what in _survivors(part)]
    return [
        f"{rule.id}: mutant {what} survives: add an example that it would get wrong"
        for what in [*_survivors(rule), *static]
    ]


def _survivors(rule: Rule) -> Iterator[str]:
    for what, mutant in mutants(rule):
        if all(run_example(mutant, example).fits(example) for example in rule.examples):
            yield what


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """(what was changed, the changed rule)."""
    for what, when in conditions(rule.when):
        yield f"`{what}`", replace(rule, when=when)
    for what, refuted_by in conditions(rule.refuted_by) if rule.refuted_by else ():
        yield f"refuted_by `{what}`", replace(rule, refuted_by=refuted_by)
    for kind in ("right", "useless"):
        remarks = getattr(rule, kind)
        for number, remark in enumerate(remarks):
            for what, when in conditions(remark.when):
                changed = (*remarks[:number], replace(remark, when=when), *remarks[number + 1 :])
                yield f"{kind} {number + 1} `{what}`", replace(rule, **{kind: changed})
    asked = (rule.when, *(remark.when for remark in (*rule.right, *rule.useless)))
    for name in dict.fromkeys(name for when in asked for name in compile_expression(when, rule.limits).limits):
        limit = rule.limits[name]
        for value in shifted(limit.value):
            limits = {**rule.limits, name: Limit(value, limit.unit, limit.why)}
            yield f"limits.{name} = {value}", replace(rule, limits=limits)


def conditions(when: str) -> Iterator[tuple[str, str]]:
    """(the changed part, the changed condition), one change each."""
    for number in count():
        tree = deepcopy(parse(when))
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.BoolOp | ast.Call)]
        if number >= len(nodes):
            return
        node = nodes[number]
        if isinstance(node, ast.Call):
            if dotted(node.func) == SURELY:
                yield shown(node.args[0]), ast.unparse(_Unwrapped(node).visit(tree))
            continue
        if isinstance(node, ast.BoolOp):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield shown(node), ast.unparse(tree)
            continue
        for place, op in enumerate(node.ops):
            node.ops[place] = NEIGHBOUR[type(op)]()
            yield shown(node), ast.unparse(tree)
            node.ops[place] = op


class _Unwrapped(ast.NodeTransformer):
    """Puts the argument of one call in the place of the call."""

    def __init__(self, call: ast.Call) -> None:
        self.call = call

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return node.args[0] if node is self.call else node


def shifted(value: Value) -> Iterator[Value]:
    """A limit's neighbours: 10 % less and more (whole numbers: at least 1); the last part of a version -+ 1."""
    if isinstance(value, tuple):
        cut = value if value[-1] else value[:-1]
        yield (*cut[:-1], cut[-1] - 1)
        yield (*value[:-1], value[-1] + 1)
    elif isinstance(value, int) and not isinstance(value, bool):
        step = max(1, round(abs(value) / 10))
        yield from (value - step, value + step)
    elif isinstance(value, float):
        yield from (value * 0.9, value * 1.1)


def shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) < 90 else f"{text[:87]}..."
