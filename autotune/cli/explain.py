"""autotune explain DL001: everything that a rule's file says, for a reader."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from autotune.catalogue import facts, settings
from autotune.engine.expr import compile_expression
from autotune.engine.find_rule import find_rule
from autotune.engine.kinds import kind_of_limit
from autotune.engine.message import format_value, render
from autotune.engine.static import decides_without_a_run
from autotune.model.rule import Effect, Fix, Limit, Remark, Rule
from autotune.outlet import print_stdout
from autotune.predict import WHAT_IFS

WIDTH = 80
EFFECTS = {
    Effect.EXACT: "results stay bit-identical",
    Effect.EQUIVALENT: "the same training; other rounding or random draws",
    Effect.ALTERING: "what is learned may change",
    Effect.MANUAL: "for you to judge",
}


@click.command()
@click.argument("rule")
def command(rule: str) -> None:
    """Say what RULE (an id such as DL001, or its name) looks for, why, and what it advises."""
    print_stdout("\n".join(lines(find_rule(rule))))


def lines(rule: Rule) -> Iterator[str]:
    """The page of a rule, at most 80 columns wide."""
    yield f"{rule.id} {rule.name}"
    yield standing(rule)
    yield ""
    yield from _wrapped(rule.summary, 0)
    for title, body in sections(rule):
        yield from ("", title, *body)


def standing(rule: Rule) -> str:
    """How grave, how sure, how old."""
    return f"{rule.severity} severity, {rule.confidence} confidence; {rule.status} since {rule.since}"


def sections(rule: Rule) -> Iterator[tuple[str, list[str]]]:
    """(title, lines) of each part that the rule has; lines are at most 80 columns wide and indented by two."""
    parts = {
        "Why": _wrapped(rule.why, 2),
        f"When (for {'the' if rule.subject == 'run' else 'each'} {rule.subject})": _condition(rule),
        "Without a run (autotune check)": _static(rule),
        "Refuted by a run in which": _wrapped(rule.refuted_by, 2),
        "Limits": (line for name, limit in rule.limits.items() for line in _limit(name, limit)),
        "What it reads": _reads(rule),
        "Fix": (line for fix in rule.fixes for line in _fix(fix, rule)),
        "Gain": _gain(rule),
        "Already right": (line for each in rule.right for line in _remark(each, rule)),
        "Would not help": (line for each in rule.useless for line in _remark(each, rule)),
        "References": (line for text in rule.references for line in _item(text)),
    }
    yield from ((title, body) for title, lines_ in parts.items() if (body := list(lines_)))


def _wrapped(text: str, indent: int) -> Iterator[str]:
    space = " " * indent
    yield from _fill(" ".join(text.split()), space, space)


def _item(text: str) -> Iterator[str]:
    yield from _fill(text, "  - ", "    ")


def _condition(rule: Rule) -> Iterator[str]:
    """As it stands in the file: its lines are how the author grouped it."""
    for line in rule.when.splitlines():
        yield from _fill(line, "  ", "      ")


def _static(rule: Rule) -> Iterator[str]:
    """What `check` asks of files, where it can use the rule."""
    if rule.static is None:
        yield from _wrapped("the same condition, where files show it", 2) if decides_without_a_run(rule) else ()
        return
    part = rule.as_static()
    yield from _wrapped(f"{part.severity} severity, {part.confidence} confidence; fires when", 2)
    yield from _condition(part)
    if part.fixes != rule.fixes:
        yield from (line for fix in part.fixes for line in _fix(fix, part))


def _fill(text: str, first: str, other: str) -> list[str]:
    """Names and literals stay whole: `max-autotune` and paths can be searched for."""
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent=first, subsequent_indent=other, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(text)


def _limit(name: str, limit: Limit) -> Iterator[str]:
    kind = kind_of_limit(limit)
    value = format_value(limit.value, "float" if kind == "number" else kind)
    unit = "" if kind != "number" or limit.unit in ("", "number") else f" {limit.unit}"
    yield from _item(f"{name} = {value}{unit}: {limit.why}")


def _reads(rule: Rule) -> Iterator[str]:
    parts = (rule, rule.as_static())
    remarks = (each.when for each in (*rule.right, *rule.useless))
    conditions = [*(part.when for part in parts), *remarks, *([rule.refuted_by] if rule.refuted_by else [])]
    names = dict.fromkeys(name for when in conditions for name in compile_expression(when, rule.limits).names)
    for name in names:
        meaning = facts()[name].meaning if name in facts() else settings()[name].meaning
        yield from _item(f"{name}: {meaning}")


def _fix(fix: Fix, rule: Rule) -> Iterator[str]:
    condition = f" (when {' '.join(fix.when.split())})" if fix.when else ""
    if not fix.setting:
        yield from _item(f"{_generic(fix.text, rule)}{condition}")
        if fix.install:
            yield from _wrapped(f"diagnose prints the install command if a matching wheel of {fix.install} exists", 4)
        if fix.script:
            yield from _wrapped("diagnose writes a script for this into the run folder", 4)
        return
    yield from _item(f"{fix.setting} = {fix.value}{condition}")
    entry = settings()[fix.setting]
    yield from _wrapped(f"{entry.effect}: {EFFECTS[entry.effect]}", 4)
    for case in entry.effect_when:
        yield from _wrapped(f"{case.effect} when {case.when}: {EFFECTS[case.effect]}", 4)
    if fix.optional:
        yield from _wrapped("optional: the other changes are valid without it", 4)
    if fix.note:
        yield from _wrapped(f"note: {_generic(fix.note, rule)}", 4)


def _remark(remark: Remark, rule: Rule) -> Iterator[str]:
    yield from _item(f"{_generic(remark.words, rule)} (when {remark.when})")


def _generic(text: str, rule: Rule) -> str:
    """`text` with its limits filled in and its facts named: there is no run to take them from."""
    return render(text, lambda name: f"<{name}>", rule.limits)


def _gain(rule: Rule) -> Iterator[str]:
    if rule.gain is None:
        return
    arguments = ", ".join(f"{name} = {value}" for name, value in rule.gain.arguments.items())
    yield from _wrapped(f"{rule.gain.what_if}{f' ({arguments})' if arguments else ''}", 2)
    # The docstring of a what-if is its one description; python -OO has none.
    yield from _wrapped(WHAT_IFS[rule.gain.what_if].__doc__ or "", 2)
