"""explain: from the name of a rule to everything that its file says, for a reader."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.catalogue import facts, settings
from autotune.engine.expr import compile_expression
from autotune.engine.message import format_value, render
from autotune.engine.static import decides_without_a_run
from autotune.engine.value_kinds import kind_of_limit
from autotune.explain import example
from autotune.explain.rules import find_rule
from autotune.model.explanation import Explanation, Paragraph, Section
from autotune.model.rule import Effect, Fix, Limit, Remark, Rule
from autotune.predict import WHAT_IFS

EFFECTS = {
    Effect.EXACT: "results stay bit-identical",
    Effect.EQUIVALENT: "the same training; other rounding or random draws",
    Effect.ALTERING: "what is learned may change",
    Effect.MANUAL: "for you to judge",
}


def explain(name: str) -> Explanation:
    """The rule whose id (in any case) or name is `name`, explained. Raises UsageError that suggests near ones."""
    return explanation(find_rule(name))


def explanation(rule: Rule) -> Explanation:
    """Every section that the rule has."""
    subject = f"{'the' if rule.subject == 'run' else 'each'} {rule.subject}"
    sections = (
        Section("Example", tuple(example.paragraphs(rule)), of_code=True),
        Section("Why", (_text(rule.why),)),
        Section(f"When (for {subject})", tuple(_condition(rule)), of_code=True),
        Section("Without a run (autotune check)", tuple(_without_a_run(rule)), of_code=True),
        Section("Refuted by a run in which", (_text(rule.refuted_by),) if rule.refuted_by else ()),
        Section("Limits", tuple(_limit(name, limit) for name, limit in rule.limits.items())),
        Section("What it reads", tuple(_names_read(rule))),
        Section("Fix", tuple(paragraph for fix in rule.fixes for paragraph in _fix(fix, rule))),
        Section("Gain", tuple(_gain(rule))),
        Section("Already right", tuple(_remark(each, rule) for each in rule.right)),
        Section("Would not help", tuple(_remark(each, rule) for each in rule.useless)),
        Section("References", tuple(map(_item, rule.references))),
    )
    return Explanation(rule, tuple(section for section in sections if section.paragraphs))


def _condition(rule: Rule) -> Iterator[Paragraph]:
    """As it stands in the file: its lines are how the author grouped it."""
    for line in rule.when.splitlines():
        yield Paragraph(line, "  ", "      ")


def _without_a_run(rule: Rule) -> Iterator[Paragraph]:
    """What `check` asks of files, where it can use the rule."""
    if rule.static is None:
        if decides_without_a_run(rule):
            yield _text("the same condition, where files show it")
        return
    part = rule.as_static()
    yield _text(f"{part.severity} severity, {part.confidence} confidence; fires when")
    yield from _condition(part)
    if part.fixes != rule.fixes:
        yield from (paragraph for fix in part.fixes for paragraph in _fix(fix, part))


def _limit(name: str, limit: Limit) -> Paragraph:
    kind = kind_of_limit(limit)
    value = format_value(limit.value, "float" if kind == "number" else kind)
    unit = "" if kind != "number" or limit.unit in ("", "number") else f" {limit.unit}"
    return _item(f"{name} = {value}{unit}: {limit.why}")


def _names_read(rule: Rule) -> Iterator[Paragraph]:
    """The facts and settings of its conditions, with their meanings."""
    parts = (rule, rule.as_static())
    remarks = (each.when for each in (*rule.right, *rule.useless))
    conditions = [*(part.when for part in parts), *remarks, *([rule.refuted_by] if rule.refuted_by else [])]
    names = dict.fromkeys(name for when in conditions for name in compile_expression(when, rule.limits).names)
    for name in names:
        meaning = facts()[name].meaning if name in facts() else settings()[name].meaning
        yield _item(f"{name}: {meaning}")


def _fix(fix: Fix, rule: Rule) -> Iterator[Paragraph]:
    condition = f" (when {' '.join(fix.when.split())})" if fix.when else ""
    if not fix.setting:
        yield _item(f"{_without_values(fix.text, rule)}{condition}")
        if fix.install:
            yield _below_item(f"diagnose prints the install command if a matching wheel of {fix.install} exists")
        if fix.script:
            yield _below_item("diagnose writes a script for this into the run folder")
        return
    yield _item(f"{fix.setting} = {fix.value}{condition}")
    entry = settings()[fix.setting]
    yield _below_item(f"{entry.effect}: {EFFECTS[entry.effect]}")
    for case in entry.effect_when:
        yield _below_item(f"{case.effect} when {case.when}: {EFFECTS[case.effect]}")
    if fix.optional:
        yield _below_item("optional: the other changes are valid without it")
    if fix.note:
        yield _below_item(f"note: {_without_values(fix.note, rule)}")


def _gain(rule: Rule) -> Iterator[Paragraph]:
    if rule.gain is None:
        return
    arguments = ", ".join(f"{name} = {value}" for name, value in rule.gain.arguments.items())
    yield _text(f"{rule.gain.what_if}{f' ({arguments})' if arguments else ''}")
    # The docstring of a what-if is its one description; python -OO has none.
    yield _text(WHAT_IFS[rule.gain.what_if].__doc__ or "")


def _remark(remark: Remark, rule: Rule) -> Paragraph:
    return _item(f"{_without_values(remark.words, rule)} (when {remark.when})")


def _without_values(text: str, rule: Rule) -> str:
    """`text` with its limits filled in and its facts named: there is no run to take them from."""
    return render(text, lambda name: f"<{name}>", rule.limits)


def _text(text: str) -> Paragraph:
    return Paragraph(" ".join(text.split()))


def _item(text: str) -> Paragraph:
    return Paragraph(text, "  - ", "    ")


def _below_item(text: str) -> Paragraph:
    return Paragraph(" ".join(text.split()), "    ", "    ")
