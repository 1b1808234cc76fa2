"""Every rule file: its examples hold, and they would notice if the rule were another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from autotune.engine.examples import failures, run_example
from autotune.engine.expr import parse
from autotune.engine.load import load_rule, load_rules, rules_folder
from autotune.model.evidence import Value
from autotune.model.rule import Limit, Rule
from autotune.predict import WHAT_IFS

FILES = sorted(rules_folder().glob("*/*.toml"))

NEIGHBOURS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE,),
    ast.LtE: (ast.Lt,),
    ast.Gt: (ast.GtE,),
    ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}


def variants(when: str) -> Iterator[tuple[str, str]]:
    """(what was changed, the changed condition): each comparison flipped, each and / or swapped."""
    for number in count():
        tree = parse(when)
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.BoolOp)]
        if number >= len(nodes):
            return
        node = nodes[number]
        if isinstance(node, ast.BoolOp):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield f"`{'or' if isinstance(node.op, ast.Or) else 'and'}` in `{shown(node)}`", ast.unparse(tree)
            continue
        for place, op in enumerate(node.ops):
            for other in NEIGHBOURS[type(op)]:
                node.ops[place] = other()
                yield f"`{shown(node)}`", ast.unparse(tree)
            node.ops[place] = op


def shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) < 90 else text[:87] + "..."


def shifted(value: Value) -> Iterator[Value]:
    """A limit's neighbours: 10 % more and less (whole numbers: at least 1); the last part of a version +- 1."""
    if isinstance(value, tuple):
        yield (*value[:-1], value[-1] + 1)
        cut = value if value[-1] else value[:-1]
        yield (*cut[:-1], cut[-1] - 1)
    elif isinstance(value, int) and not isinstance(value, bool):
        step = max(1, round(abs(value) / 10))
        yield from (value - step, value + step)
    elif isinstance(value, float):
        yield from (value * 0.9, value * 1.1)


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    for what, when in variants(rule.when):
        yield what, replace(rule, when=when)
    for name, limit in rule.limits.items():
        if f"limits.{name}" not in rule.when:
            continue
        for value in shifted(limit.value):
            other = {**rule.limits, name: Limit(value, limit.unit, limit.why)}
            yield f"limits.{name} = {value}", replace(rule, limits=other)


def survivors(rule: Rule) -> list[str]:
    wanted = [example.expect for example in rule.examples]
    return [
        f"{rule.id}: mutant {what} survives: add an example that it would get wrong"
        for what, mutant in mutants(rule)
        if [run_example(mutant, example)[0] for example in rule.examples] == wanted
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
class TestRuleFile:
    def test_loads_and_its_examples_hold(self, file) -> None:
        assert list(failures(load_rule(file))) == []

    def test_an_example_notices_every_mutant(self, file) -> None:
        assert survivors(load_rule(file)) == []

    def test_its_gain_names_a_what_if(self, file) -> None:
        gain = load_rule(file).gain
        assert gain is None or gain.what_if in WHAT_IFS


def test_all_files_load_together() -> None:
    assert [rule.id for rule in load_rules()] == sorted(file.stem for file in FILES)


def test_names_are_unique() -> None:
    names = [rule.name for rule in load_rules()]
    assert len(names) == len(set(names))
