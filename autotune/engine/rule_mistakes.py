"""What must hold between the parts of one rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec.structs import replace

from autotune.catalogue import facts, kinds, settings
from autotune.engine import message
from autotune.engine.expr import SURELY, compile_expression
from autotune.engine.static import decides_without_a_run, is_of_code, needs_a_run
from autotune.engine.syntax import dotted, limits_in, names_in, parse
from autotune.engine.value_kinds import NUMBER, NUMBERS, plain_kind
from autotune.errors import RuleError
from autotune.model.evidence import RUN
from autotune.model.rule import Code, Fix, Remark, Rule

MIN_EXAMPLES = 3

LONGEST_CODE, WIDEST_CODE = 8, 70
"""Lines, and columns: `explain` shows code whole, and beside a label."""


def mistakes(rule: Rule) -> Iterator[str]:
    """Everything that is wrong with a rule whose keys are all there."""
    found = [
        *_claims(rule),
        *_code(rule.code),
        *_refutation(rule),
        *_remarks(rule),
        *_limits(rule),
        *_examples(rule),
        *_static(rule),
    ]
    yield from found or list(_unanswered(rule)) or _open(rule)


def _claims(rule: Rule) -> Iterator[str]:
    """Mistakes of what the rule asks, says and advises."""
    yield from _expression(rule, "when", rule.when, "bool")
    yield from _expression(rule, "asks_about", rule.asks_about, "share") if rule.asks_about else ()
    yield from _sentence(rule, "message", rule.message)
    yield from _quotes(rule) if _is_syntax(rule.when) else ()
    for number, fix in enumerate(rule.fixes, 1):
        yield from _fix(rule, f"fix {number}", fix)


def _code(code: Code | None) -> Iterator[str]:
    """Mistakes of the lines before and after."""
    if code is None:
        return
    if code.before == code.after:
        yield "code: before and after are the same"
    for key, text in (("before", code.before), ("after", code.after)):
        lines = text.splitlines()
        if len(lines) > LONGEST_CODE or any(len(line) > WIDEST_CODE for line in lines):
            yield f"code.{key}: at most {LONGEST_CODE} lines of {WIDEST_CODE} columns"


def _refutation(rule: Rule) -> Iterator[str]:
    """Mistakes of the condition by which a run takes a finding of files back."""
    if not rule.refuted_by:
        return
    yield from _expression(rule, "refuted_by", rule.refuted_by, "bool")
    if _is_syntax(rule.refuted_by) and not any(map(needs_a_run, names_in(parse(rule.refuted_by)))):
        yield "refuted_by: it reads nothing that needs a run"
    if not decides_without_a_run(rule):
        yield "refuted_by: `when` needs a run already; write it there"


def _remarks(rule: Rule) -> Iterator[str]:
    """Mistakes in the [[right]] and [[useless]] tables of a rule."""
    for key, each in _keyed_remarks(rule):
        yield from _expression(rule, f"{key}.when", each.when, "bool")
        yield from _sentence(rule, f"{key}.words", each.words)
    for key in ("right", "useless"):
        if getattr(rule, key) and not any(getattr(example, key) for example in rule.examples):
            yield f'example: none with {key} = "..."'
    for number, example in enumerate(rule.examples, 1):
        if (example.right or example.useless) and (example.static or example.expect == "skipped"):
            yield f"example {number}: no remark is made where a rule is skipped, or without a run"


def _keyed_remarks(rule: Rule) -> Iterator[tuple[str, Remark]]:
    """The remarks of a rule by where they stand in its file: "right 1"."""
    for key, remarks in (("right", rule.right), ("useless", rule.useless)):
        yield from ((f"{key} {number}", each) for number, each in enumerate(remarks, 1))


def _static(rule: Rule) -> Iterator[str]:
    """Mistakes of the [static] part and its examples."""
    conditions = {"when": rule.when} | {f"{key}.when": each.when for key, each in _keyed_remarks(rule)}
    for key, condition in conditions.items():
        for name in _taken_for_false(condition) if _is_syntax(condition) else ():
            yield f"{key}: only [static] may take `{name}` to be false by {SURELY}() while it is unknown"
    if rule.static is None:
        if any(example.static for example in rule.examples):
            yield "example: one is static, but the rule has no [static]"
        return
    part = rule.as_static()
    yield from (f"static.{each}" for each in _claims(part if part.fixes != rule.fixes else replace(part, fixes=())))
    if _is_syntax(part.when):
        yield from (f"static.when: `{name}` needs a run" for name in names_in(parse(part.when)) if needs_a_run(name))
    if part.matters:
        wrong = [*_expression(rule, "static.matters", part.matters, "bool")]
        read = () if wrong else names_in(parse(part.matters))
        yield from wrong or (f"static.matters: `{name}` needs a run" for name in read if needs_a_run(name))
        if not any(example.minor for example in part.examples):
            yield "example: none is static with minor = true"
    yield from (f"static {each}" for each in _expectations(part))


def _taken_for_false(condition: str) -> Iterator[str]:
    """What a condition takes to be false while it is unknown, of what a run or a setting tells.

    What only code shows may be taken so beside a run: a script that spreads over files shows less of it.
    """
    for node in ast.walk(parse(condition)):
        if isinstance(node, ast.Call) and dotted(node.func) == SURELY:
            yield from (name for name in names_in(node) if not is_of_code(name))


def _unanswered(rule: Rule) -> Iterator[str]:
    """What `check` would say with an "unknown" in it."""
    if not decides_without_a_run(rule):
        return
    part = rule.as_static()
    key = "message" if part is rule else "static.message"
    yield from (f"{key}: `{name}` needs a run" for name in message.names(part.message) if needs_a_run(name))
    for number, fix in enumerate(part.fixes, 1):
        read = {name for text in (fix.when, fix.value) if text for name in names_in(parse(text))}
        quoted = message.names(f"{fix.text} {fix.note}")
        if not any(map(needs_a_run, read)):
            yield from (
                f"fix {number}: `{name}` needs a run: add a [[static.fix]]" for name in quoted if needs_a_run(name)
            )


def _open(rule: Rule) -> Iterator[str]:
    """What a message quotes outside of [ ] although its condition may be true without it."""
    said = {"message": (rule.when, rule.message)} | {
        f"{key}.words": (each.when, each.words) for key, each in _keyed_remarks(rule)
    }
    if rule.static is not None:
        said["static.message"] = (rule.static.when, rule.static.message)
    for key, (when, text) in said.items():
        known = _known(parse(when))
        for name in message.required_names(text):
            if not name.startswith("limits.") and name not in known:
                yield f"{key}: `{name}` may be unknown where `when` is true: put what it says into [ ]"


def _known(tree: ast.expr) -> set[str]:
    """The names without which `tree` cannot be true."""
    if isinstance(tree, ast.BoolOp):
        parts = [_known(value) for value in tree.values]
        return set.union(*parts) if isinstance(tree.op, ast.And) else set.intersection(*parts)
    if isinstance(tree, ast.Call) or (isinstance(tree, ast.UnaryOp) and not isinstance(tree.operand, ast.Attribute)):
        return set()
    return set(names_in(tree))


def quoted_numbers(when: str) -> tuple[str, ...]:
    """The numbers that turn `when` on: compared in a part that must hold, and not fixed by `== 0` or `== 1`."""
    return tuple(dict.fromkeys(_numbers(parse(when))))


def _numbers(tree: ast.expr) -> Iterator[str]:
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for value in tree.values:
            yield from _numbers(value)
    elif isinstance(tree, ast.Compare) and not _is_fixed(tree):
        for name in names_in(tree):
            if plain_kind(kinds()[name]) in ("version", *NUMBERS):
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


def _article(subject: str) -> str:
    """ "a loader", "an optimizer", "the run"."""
    return "the run" if subject == RUN else f"{'an' if subject[0] in 'aeiou' else 'a'} {subject}"


def _sentence(rule: Rule, key: str, text: str) -> Iterator[str]:
    wrong = tuple(message.mistakes(text, rule.limits))
    yield from (f"{key}: {each}" for each in wrong)
    names = tuple(name for name in message.names(text) if name in kinds())
    yield from _foreign(rule, key, names)


def _quotes(rule: Rule) -> Iterator[str]:
    quoted = message.names(rule.message)
    for name in quoted_numbers(rule.when):
        if name not in quoted:
            yield f"message: `when` turns on `{name}`, so quote it: {{{name}}}"


def _fix(rule: Rule, key: str, fix: Fix) -> Iterator[str]:
    if fix.when:
        yield from _expression(rule, f"{key}.when", fix.when, "bool")
    yield from _sentence(rule, f"{key}.text", fix.text)
    yield from _sentence(rule, f"{key}.note", fix.note)
    yield from _needs(rule, key, fix)
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
    wanted = NUMBERS if kind == NUMBER else (kind,)
    yield from _expression(rule, f"{key}.value", fix.value, *wanted)


def _needs(rule: Rule, key: str, fix: Fix) -> Iterator[str]:
    """Mistakes of what a text needs: a package, a script."""
    from packaging.requirements import InvalidRequirement, Requirement  # only rules that are not kept need it

    if fix.script and rule.subject != "loader":
        yield f'{key}.script: it is made of the facts of a loader, so this rule needs subject = "loader"'
    if fix.install:
        try:
            Requirement(fix.install)
        except InvalidRequirement:
            yield f'{key}.install: "{fix.install}" is no requirement: write it like "transformers>=4.42,<5"'


def _limits(rule: Rule) -> Iterator[str]:
    """Limits that nothing uses; not asked while an expression that might use one cannot be read."""
    parts = (rule, rule.as_static())
    fixes = [fix for part in parts for fix in part.fixes]
    remarks = (*rule.right, *rule.useless)
    whens = [*(part.when for part in parts), *(each.when for each in remarks)]
    conditions = [*whens, *(text for text in (rule.refuted_by, parts[1].matters) if text)]
    expressions = [*conditions, *(text for fix in fixes for text in (fix.when, fix.value) if text)]
    if not all(map(_is_syntax, expressions)):
        return
    used = {f"limits.{name}" for text in expressions for name in limits_in(parse(text))}
    sentences = [*(part.message for part in parts), *(f"{fix.text} {fix.note}" for fix in fixes)]
    sentences += [each.words for each in remarks]
    used.update(name for sentence in sentences for name in message.names(sentence))
    for name in rule.limits:
        if f"limits.{name}" not in used:
            yield f"limits.{name}: nothing uses it; remove it"


def _is_syntax(text: str) -> bool:
    try:
        parse(text)
    except RuleError:
        return False
    return True


def _examples(rule: Rule) -> Iterator[str]:
    num_examples = sum(not example.static for example in rule.examples)
    if num_examples < MIN_EXAMPLES:
        yield f"example: {num_examples} of at least {MIN_EXAMPLES}; add [[example]] on and beside each limit"
    yield from _expectations(replace(rule, examples=tuple(each for each in rule.examples if not each.static)))


def _expectations(rule: Rule) -> Iterator[str]:
    expected = [example.expect for example in rule.examples]
    for expect in ("fires", "silent"):
        if expect not in expected:
            yield f'example: none with expect = "{expect}"'
