"""A parsed TOML file becomes a Rule; what the file lacks or misspells is noted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.catalogue import kinds, settings, what_ifs
from autotune.catalogue.vocabulary import KINDS, SUBJECTS
from autotune.engine.table_reader import Fields, value_of
from autotune.engine.value_kinds import unknown
from autotune.model.evidence import Value
from autotune.model.rule import SCRIPTS, Code, Example, Fix, GainSpec, Limit, Remark, Rule, Severity, Static

KEYS = (
    "id",
    "name",
    "summary",
    "since",
    "status",
    "severity",
    "confidence",
    "subject",
    "cause",
    "asks_about",
    "yields_to",
    "when",
    "refuted_by",
    "message",
    "why",
    "references",
    "limits",
    "code",
    "fix",
    "gain",
    "right",
    "useless",
    "static",
    "example",
)
STATUSES = ("preview", "stable", "deprecated")
CONFIDENCES = ("high", "medium", "low")
EXPECTATIONS = ("fires", "silent", "skipped")

_ID = re.compile(r"[A-Z]{2}\d{3}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DECIMAL = re.compile(r"\d+(\.\d+)?")


def parse_rule(data: Mapping[str, Any], file: str, mistakes: list[str]) -> Rule:
    """The Rule in `data`; only to be used when nothing was added to `mistakes`."""
    top = Fields(data, "", mistakes)
    top.only(KEYS)
    severity = Severity(top.choice("severity", list(Severity)) or Severity.INFO)
    confidence = top.choice("confidence", CONFIDENCES)
    fixes = tuple(_fix(row) for row in top.tables("fix"))
    return Rule(
        id=_matching(top, "id", _ID, "two capitals and three digits, e.g. DL001"),
        name=_matching(top, "name", _NAME, "the problem in kebab-case, e.g. small-batches"),
        summary=top.text("summary"),
        since=top.text("since"),
        status=top.choice("status", STATUSES),
        severity=severity,
        confidence=confidence,
        subject=top.choice("subject", SUBJECTS),
        when=top.text("when"),
        message=" ".join(top.text("message").split()),
        why=top.text("why"),
        references=top.texts("references"),
        limits={name: _limit(Fields(row, f"limits.{name}", mistakes)) for name, row in top.entries("limits").items()},
        fixes=fixes,
        gain=_gain(top.below("gain")) if "gain" in data else None,
        examples=tuple(_example(row) for row in top.tables("example")),
        file=file,
        cause=top.text("cause") if "cause" in data else "",
        asks_about=top.text("asks_about") if "asks_about" in data else "",
        yields_to=top.texts("yields_to") if "yields_to" in data else (),
        static=_static(top.below("static"), severity, confidence, fixes) if "static" in data else None,
        code=_code(top.below("code")) if "code" in data else None,
        refuted_by=top.text("refuted_by") if "refuted_by" in data else "",
        right=tuple(_remark(row) for row in top.tables("right")),
        useless=tuple(_remark(row) for row in top.tables("useless")),
    )


def _code(fields: Fields) -> Code:
    fields.only(("before", "after"))
    return Code(fields.text("before"), fields.text("after"))


def _matching(fields: Fields, key: str, pattern: re.Pattern[str], what: str) -> str:
    value = fields.text(key)
    if value and not pattern.fullmatch(value):
        fields.wrong(key, f'"{value}" must be {what}')
    return value


def _limit(fields: Fields) -> Limit:
    fields.only(("value", "unit", "why"))
    unit = fields.text("unit")
    return Limit(_limit_value(fields, unit), unit, fields.text("why"))


def _limit_value(fields: Fields, unit: str) -> Value:
    raw = fields.table.get("value")
    if raw is None:
        fields.wrong("value", "is missing")
        return 0
    natural = {bool: "bool", str: "text"}.get(type(raw), "float")
    kind = unit if unit in KINDS else natural
    return _value(fields, "value", raw, kind)


def _value(fields: Fields, key: str, raw: object, kind: str) -> Value:
    try:
        return value_of(raw, kind)
    except ValueError as error:
        fields.wrong(key, str(error))
        return 0


def _fix(fields: Fields) -> Fix:
    keys = ("setting", "value", "note", "text", "install", "script", "when")
    fields.only((*keys, "optional"))
    before = len(fields.mistakes)
    fix = Fix(**{key: fields.text(key, default="") for key in keys}, optional=fields.flag("optional"))
    if len(fields.mistakes) == before:
        _check_fix(fields, fix)
    return fix


def _check_fix(fields: Fields, fix: Fix) -> None:
    if bool(fix.setting) == bool(fix.text):
        fields.wrong("", "needs either a `setting` with a `value`, or a `text`")
    elif bool(fix.setting) != bool(fix.value):
        fields.wrong("value", "is missing" if fix.setting else "belongs to a `setting`")
    elif fix.text and fix.note:
        fields.wrong("note", "belongs to a `setting`: put it into the `text`")
    elif fix.text and fix.optional:
        fields.wrong("optional", "belongs to a `setting`: nothing needs a `text`")
    for key in ("install", "script"):
        if getattr(fix, key) and not fix.text:
            fields.wrong(key, "belongs to a `text` that says what to do with it")
    if fix.script:
        fields.choice("script", SCRIPTS)


def _gain(fields: Fields) -> GainSpec:
    """A what-if with its arguments, which are those that the catalogue says it takes."""
    fields.only(("what_if", "arguments"))
    what_if = fields.choice("what_if", tuple(what_ifs()))
    given = Fields(fields.entries("arguments"), "gain.arguments", fields.mistakes)
    if what_if:
        takes = what_ifs()[what_if]
        given.only((*takes.required, *takes.optional))
        for name, kind in {**takes.required, **takes.optional}.items():
            if name in takes.required or name in given.table:
                _argument(given, name, kind)
    return GainSpec(what_if, {name: str(value) for name, value in given.table.items()})


def _argument(given: Fields, name: str, kind: str | Sequence[str]) -> None:
    """Notes what is wrong with an argument of a what-if: a fact is named, all else is written out."""
    if not isinstance(kind, str):
        given.choice(name, kind)
        return
    value = given.text(name)
    if value and kind == "fact" and value not in kinds():
        given.wrong(name, unknown(value))
    elif value and kind == "number" and not _DECIMAL.fullmatch(value):
        given.wrong(name, f'"{value}" is no number')
    elif value and kind == "flag" and value != "true":
        given.wrong(name, f'"{value}" must be "true", or the argument left out')


def _remark(fields: Fields) -> Remark:
    fields.only(("when", "words"))
    return Remark(when=fields.text("when"), words=" ".join(fields.text("words").split()))


def _static(fields: Fields, severity: Severity, confidence: str, fixes: tuple[Fix, ...]) -> Static:
    """The part for `check`; what it does not say is as in the rule."""
    fields.only(("when", "matters", "at", "message", "severity", "confidence", "fix"))
    return Static(
        when=fields.text("when"),
        message=" ".join(fields.text("message").split()),
        severity=Severity(fields.choice("severity", list(Severity), default=severity) or severity),
        confidence=fields.choice("confidence", CONFIDENCES, default=confidence),
        fixes=tuple(_fix(row) for row in fields.tables("fix")) or fixes,
        matters=fields.text("matters", default=""),
        at=fields.choice("at", tuple(settings()), default="") if "at" in fields.table else "",
    )


def _example(fields: Fields) -> Example:
    fields.only(("static", "expect", "facts", "why", "message", "right", "useless", "minor"))
    facts: dict[str, Value] = {}
    for name, raw in fields.entries("facts").items():
        if name in kinds():
            facts[name] = _value(fields, f'facts."{name}"', raw, kinds()[name])
        else:
            fields.wrong("facts", unknown(name))
    return Example(
        expect=fields.choice("expect", EXPECTATIONS),
        facts=facts,
        why=fields.text("why", default=""),
        message=" ".join(fields.text("message", default="").split()),
        static=fields.flag("static"),
        right=fields.text("right", default=""),
        useless=fields.text("useless", default=""),
        minor=fields.flag("minor"),
    )
