"""SARIF 2.1.0 (OASIS): one run, its rules with help, its results with places and fingerprints.

Paths are relative to %SRCROOT%. What is silenced is a result with a suppression; what was not read and the limits of
--profile are notifications. Rules that need a run are left out: consumers show every result as a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

from autotune import __version__
from autotune.model.checked import COMMENT, Checked, Silenced
from autotune.model.evidence import Location
from autotune.model.rule import Rule, Severity
from autotune.report import findings as say
from autotune.report.ci.fingerprint import fingerprints
from autotune.report.json.encode import Json, dumps
from autotune.report.labels import cell
from autotune.report.markdown.markup import escape

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_FINGERPRINT = "autotune/v1"
_LEVELS = {
    Severity.CRITICAL: "error",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "note",
    Severity.INFO: "note",
}
_PROBLEMS = {"error": "error", "warning": "warning", "note": "recommendation"}


def render(checked: Checked, colour: bool, width: int) -> str:
    """The log in one line."""
    return dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [_run(checked)]})


def _run(checked: Checked) -> Json:
    found = say.locate_findings(checked)
    hidden = [(say.bundle_location(one, each.finding), each) for one in checked.bundles for each in one.silenced]
    all_placed = [*found, *(each for each, _ in hidden)]
    rules = {each.finding.rule.id: each.finding.rule for each in all_placed}
    results = _results(all_placed, sorted(rules))
    for result, (_, silenced) in zip(results[len(found) :], hidden, strict=True):
        result["suppressions"] = [_suppression(silenced)]
    return {
        "tool": {
            "driver": {
                "name": "autotune",
                "semanticVersion": __version__,
                "rules": [_rule(rules[rule_id]) for rule_id in sorted(rules)],
            }
        },
        "invocations": [
            {"executionSuccessful": not checked.bugs, "toolExecutionNotifications": list(_notifications(checked))}
        ],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }


def _rule(rule: Rule) -> Json:
    level = _LEVELS[rule.severity]
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": _message(_line(rule.summary)),
        "fullDescription": _message(_line(rule.why)),
        "help": {**_message(_help(rule, str)), "markdown": say.encodable(_escape_braces(_help(rule, escape)))},
        "defaultConfiguration": {"level": level},
        "properties": {
            "tags": ["performance", "training"],
            "precision": rule.confidence,
            "problem.severity": _PROBLEMS[level],
        },
    }


def _help(rule: Rule, written: Callable[[str], str]) -> str:
    """Why the rule says so and on what it rests, as plain text and as Markdown alike."""
    items = [f"- {written(_line(text))}" for text in rule.references]
    references = "\n".join(["References:", "", *items]) if items else ""
    parts = (written(_line(rule.why)), references, f"More: autotune explain {written(rule.id)}")
    return "\n\n".join(part for part in parts if part)


def _results(findings: Sequence[say.LocatedFinding], rule_ids: Sequence[str]) -> list[Json]:
    index = {rule_id: number for number, rule_id in enumerate(rule_ids)}
    return [
        {
            "ruleId": each.finding.rule.id,
            "ruleIndex": index[each.finding.rule.id],
            "level": _LEVELS[each.finding.rule.severity],
            "message": _message("\n".join(say.paragraphs(each))),
            "locations": [_location(each.location)],
            "relatedLocations": [
                {"id": number, **_location(other), "message": _message(_related(other))}
                for number, other in enumerate(say.other_places(each))
            ],
            "partialFingerprints": {_FINGERPRINT: fingerprint},
            "properties": {
                "bundle": say.encodable(each.bundle),
                "subject": say.encodable(each.finding.subject),
                "severity": each.finding.rule.severity.value,
                "confidence": each.finding.rule.confidence,
            },
        }
        for each, fingerprint in zip(findings, fingerprints(findings), strict=True)
    ]


def _location(location: Location) -> Json:
    """A place whose columns are not known, or that ends where it starts, is a whole line."""
    region = {"startLine": location.line}
    if location.column:
        region["startColumn"] = location.column
    if location.end_line > location.line:
        region["endLine"] = location.end_line
    artifact = {"uri": quote(say.encodable(location.file), safe="/"), "uriBaseId": "%SRCROOT%"}
    place: Json = {"physicalLocation": {"artifactLocation": artifact, "region": region}}
    if in_cell := cell(location):
        place["message"] = _message(in_cell)
    return place


def _related(other: Location) -> str:
    in_cell = cell(other)
    return f"also read here: {in_cell}" if in_cell else "also read here"


def _suppression(silenced: Silenced) -> Json:
    kind = "inSource" if silenced.by == COMMENT else "external"
    return {"kind": kind, "status": "accepted", "justification": say.encodable(silenced.reason or silenced.by)}


def _notifications(checked: Checked) -> Iterator[Json]:
    for note in say.notes(checked):
        message = _message(_line(f"{note.where}: {note.why}"))
        yield {"level": "error" if note.is_bug else "warning" if note.is_error else "note", "message": message}
    for gate in checked.gates:
        yield {"level": "note" if gate.holds else "error", "message": _message(_line(say.gate_line(gate)))}


def _message(text: str) -> Json:
    """A message without placeholders and links: SARIF 2.1.0, 3.11.5 and 3.11.6."""
    return {"text": say.encodable(_escape_braces(text).replace("](", "] ("))}


def _escape_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _line(text: str) -> str:
    return " ".join(text.split())
