"""What must hold between the parts of one rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.catalogue import facts, kinds, settings
from autotune.engine import message
from autotune.engine.expr import NUMBER, UNITS, compile_expression, dotted, parse, plain_kind
from autotune.errors import RuleError
from autotune.model.evidence import RUN
from autotune.model.rule import Fix, Rule

MIN_EXAMPLES = 3


def mistakes(rule: Rule) -> Iterator[str]:
    """Everything that is wrong with a rule whose keys are all there."""
    yield from _expression(rule, "when", rule.when, "bool")
    yield from _sentence(rule, "message", rule.message)
    for number, fix in enumerate(rule.fixes, 1):
        yield from _fix(rule, f"fix {number}", fix)
    yield from _limits(rule)
    yield from _examples(rule)


def _article(subject: str) -> str:
    """ "a loader", "an optimizer", "the run"."""
    return "the run" if subject == RUN else f"{'an' if subject[0] in 'aeiou' else 'a'} {subject}"


def quoted_numbers(when: str) -> tuple[str, ...]:
    """The numbers that turn `when` on: compared in a part that must hold, and not fixed by `== 0` or `== 1`."""
    return tuple(dict.fromkeys(_numbers(parse(when))))


def _numbers(tree: ast.expr) -> Iterator[str]:
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for value in tree.values:
            yield from _numbers(value)
    elif isinstance(tree, ast.Compare) and not _is_fixed(tree):
        for node in ast.walk(tree):
            name = dotted(node) if isinstance(node, ast.Attribute) else ""
            if name in kinds() and plain_kind(kinds()[name]) in (NUMBER, "version", *UNITS):
                yield name


def _is_fixed(tree: ast.Compare) -> bool:
    return isinstance(tree.ops[0], ast.Eq) and any(
        isinstance(side, ast.Constant) for side in (tree.left, *tree.comparators)
    )


def _expression(rule: Rule, key: str, text: str, *wanted: str) -> Iterator[str]:
    """Mistakes of an expression whose kind must be one of `wanted`."""
    try:
        expression = compile_expression(text, rule.limits)
    except RuleError as error:
        yield f"{key}: {error.what}"
        return
    if expression.kind not in wanted:
        yield f"{key}: `{text}` is of type {expression.kind}, not {' or '.join(wanted)}"
    yield from _foreign(rule, key, expression.names)


def _foreign(rule: Rule, key: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        owner = (facts().get(name) or settings()[name]).subject
        if owner not in (RUN, rule.subject):
            yield f'{key}: `{name}` belongs to {_article(owner)}, so this rule needs subject = "{owner}"'


def _sentence(rule: Rule, key: str, text: str) -> Iterator[str]:
    wrong = tuple(message.mistakes(text, rule.limits))
    yield from (f"{key}: {each}" for each in wrong)
    names = tuple(name for name in message.names(text) if name in kinds())
    yield from _foreign(rule, key, names)
    if key != "message" or _is_broken(rule.when):
        return
    for name in quoted_numbers(rule.when):
        if name not in names:
            yield f"message: `when` turns on `{name}`, so quote it: {{{name}}}"


def _is_broken(text: str) -> bool:
    try:
        parse(text)
    except RuleError:
        return True
    return False


def _fix(rule: Rule, key: str, fix: Fix) -> Iterator[str]:
    if fix.when:
        yield from _expression(rule, f"{key}.when", fix.when, "bool")
    yield from _sentence(rule, f"{key}.text", fix.text)
    yield from _sentence(rule, f"{key}.note", fix.note)
    if not fix.setting:
        return
    setting = settings().get(fix.setting)
    if setting is None:
        yield f"{key}.setting: `{fix.setting}` is not in catalogue/settings.toml"
        return
    if setting.subject not in (RUN, rule.subject):
        owners = _article(setting.subject), _article(rule.subject)
        yield f"{key}.setting: `{fix.setting}` belongs to {owners[0]}, and this rule to {owners[1]}"
    kind = plain_kind(setting.type)
    wanted = (NUMBER, *UNITS) if kind == NUMBER else (kind,)
    yield from _expression(rule, f"{key}.value", fix.value, *wanted)


def _limits(rule: Rule) -> Iterator[str]:
    used = {name for name in message.names(rule.message) if name.startswith("limits.")}
    for text in (rule.when, *(part for fix in rule.fixes for part in (fix.when, fix.value) if part)):
        used |= set() if _is_broken(text) else {f"limits.{name}" for name in _read_limits(text)}
    used |= {name for fix in rule.fixes for name in message.names(f"{fix.text} {fix.note}")}
    for name in rule.limits:
        if f"limits.{name}" not in used:
            yield f"limits.{name}: nothing uses it; remove it"


def _read_limits(text: str) -> Iterator[str]:
    for node in ast.walk(parse(text)):
        name = dotted(node) if isinstance(node, ast.Attribute) else ""
        if name.startswith("limits."):
            yield name.removeprefix("limits.")


def _examples(rule: Rule) -> Iterator[str]:
    kinds_of_example = [example.expect for example in rule.examples]
    if len(kinds_of_example) < MIN_EXAMPLES:
        yield f"example: {len(kinds_of_example)} of at least {MIN_EXAMPLES}; add [[example]] on and beside each limit"
    for expect in ("fires", "silent"):
        if expect not in kinds_of_example:
            yield f'example: none with expect = "{expect}"'
