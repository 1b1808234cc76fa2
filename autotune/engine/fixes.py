"""The fixes of a rule, for one subject: changes of settings, and advice."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from autotune import catalogue
from autotune.engine.expr import compile_expression
from autotune.engine.message import render
from autotune.model.evidence import RUN, Evidence, Setting, Value
from autotune.model.finding import SettingChange
from autotune.model.rule import Effect, Fix, Rule


def changes_of(rule: Rule, evidence: Evidence, subject: str) -> tuple[SettingChange, ...]:
    """The changes that the fixes of `rule` ask for.

    A fix counts when its condition is true, its value is known and the user's framework has such a setting; the
    first that counts decides its setting. A value that the setting has already is no change. Each change needs what the
    other fixes whose condition is true change, where these are not optional.
    """
    decided: dict[str, SettingChange] = {}
    needed: dict[str, None] = {}
    for fix in rule.fixes:
        if not fix.setting or fix.setting in decided or not _applies(fix.when, rule, evidence, subject):
            continue
        if not fix.optional:
            needed[fix.setting] = None
        value = _value(rule, fix, evidence, subject)
        if value is not None and _can_be(fix.setting, value, evidence, subject):
            decided[fix.setting] = _change(rule, fix, value, evidence, subject)
    is_so = {name for name, change in decided.items() if change.new == change.old}
    return tuple(
        replace(change, needs=tuple(one for one in needed if one != name and one not in is_so))
        for name, change in decided.items()
        if name not in is_so
    )


def advice_of(rule: Rule, evidence: Evidence, subject: str) -> tuple[str, ...]:
    """The texts of the manual fixes whose condition is true; without one, what to do by hand."""
    applying = applying_fixes(rule, evidence, subject)
    texts = tuple(
        render(" ".join(fix.text.split()), lambda name: evidence.lookup(subject, name), rule.limits)
        for fix in applying
        if fix.text
    )
    values = [(fix.setting, _value(rule, fix, evidence, subject)) for fix in applying if fix.setting]
    by_hand = [(name, value) for name, value in values if not _can_be(name, value, evidence, subject)]
    return texts or tuple(_by_hand(name, value, evidence) for name, value in by_hand)


def applying_fixes(rule: Rule, evidence: Evidence, subject: str) -> tuple[Fix, ...]:
    """The fixes of `rule` whose condition is true."""
    return tuple(fix for fix in rule.fixes if _applies(fix.when, rule, evidence, subject))


def _by_hand(name: str, value: Value | None, evidence: Evidence) -> str:
    reason = catalogue.why_missing(str(evidence.lookup(RUN, "run.framework")), name)
    found = _spelling(name, evidence)
    reason = f"{found.key} has no such value" if found is not None else reason
    return f"by hand, {name}: {'' if value is None else f'{value}, '}{reason}"


def effect_of(setting: str, evidence: Evidence, subject: str) -> Effect:
    """What changing `setting` does to results: the first `effect_when` that holds, else the setting's own.

    While it is unknown whether one holds, the graver of the possible effects counts.
    """
    entry = catalogue.settings()[setting]
    possible = []
    for case in entry.effect_when:
        answer, _ = compile_expression(case.when).evaluate(lambda name: evidence.lookup(subject, name))
        if answer is not False:
            possible.append(case.effect)
        if answer is True:
            break
    else:
        possible.append(entry.effect)
    return max(possible, key=lambda effect: effect.rank)


def spelled(setting: Setting | None, name: str, value: Value, evidence: Evidence) -> str:
    """How the user's framework writes `name` = `value`: as its Setting says, else as the dialect does; "" if unknown.

    A key alone ("dataloader_num_workers") takes the value as it is; otherwise it is all written out ("bf16=True").
    """
    own = setting.spelling if setting is not None else ""
    found = _spelling(name, evidence)
    return found.written(value) if found and own in ("", found.key) else own


def _can_be(name: str, value: Value | None, evidence: Evidence, subject: str) -> bool:
    """Whether the user can set `name` to `value`: the framework has it, or it was seen with another spelling."""
    setting = evidence.setting(subject, name)
    own = setting.spelling if setting is not None else ""
    framework = evidence.lookup(RUN, "run.framework")
    found = _spelling(name, evidence)
    if found is not None and own in ("", found.key):
        return value is None or found.takes(value)
    return bool(own) or framework is None or not catalogue.why_missing(str(framework), name)


def _spelling(name: str, evidence: Evidence) -> catalogue.SettingSpelling | None:
    """How the user's framework writes the setting `name`."""
    framework = evidence.lookup(RUN, "run.framework")
    return catalogue.spelling(str(framework), name, _versions(evidence)) if framework else None


def _versions(evidence: Evidence) -> Mapping[str, tuple[int, ...]]:
    known: Mapping[str, Value] = evidence.facts.get(RUN, {})
    return {
        name.removeprefix("software."): value
        for name, value in known.items()
        if name.startswith("software.") and isinstance(value, tuple)
    }


def _applies(when: str, rule: Rule, evidence: Evidence, subject: str) -> bool:
    """A fix without a condition always applies; one whose condition is unknown does not."""
    if not when:
        return True
    answer, _ = compile_expression(when, rule.limits).evaluate(lambda name: evidence.lookup(subject, name))
    return answer is True


def _value(rule: Rule, fix: Fix, evidence: Evidence, subject: str) -> Value | None:
    expression = compile_expression(fix.value, rule.limits)
    value, _ = expression.evaluate(lambda name: evidence.lookup(subject, name))
    if catalogue.settings()[fix.setting].type == "int" and isinstance(value, float):
        return round(value)
    return value


def _change(rule: Rule, fix: Fix, value: Value, evidence: Evidence, subject: str) -> SettingChange:
    setting = evidence.setting(subject, fix.setting)
    return SettingChange(
        setting=fix.setting,
        old=setting.value if setting is not None else None,
        new=value,
        effect=effect_of(fix.setting, evidence, subject),
        location=setting.location if setting is not None else None,
        spelling=spelled(setting, fix.setting, value, evidence),
        note=render(fix.note, lambda name: evidence.lookup(subject, name), rule.limits),
    )
