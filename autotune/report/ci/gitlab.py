"""A Code Quality report of GitLab: a JSON list (docs.gitlab.com/ci/testing/code_quality, "report format")."""

from __future__ import annotations

from autotune.model.checked import Checked
from autotune.model.rule import Severity
from autotune.report import findings as say
from autotune.report.ci.fingerprint import fingerprints
from autotune.report.json.encode import Json, dumps

_SEVERITIES = {
    Severity.CRITICAL: "blocker",
    Severity.HIGH: "critical",
    Severity.MEDIUM: "major",
    Severity.LOW: "minor",
    Severity.INFO: "info",
}


def render(checked: Checked, colour: bool, width: int) -> str:
    """The list in one line. GitLab compares fingerprints with those of the target branch."""
    found = say.locate_findings(checked)
    return dumps([_issue(each, digits) for each, digits in zip(found, fingerprints(found), strict=True)])


def _issue(each: say.LocatedFinding, fingerprint: str) -> Json:
    rule = each.finding.rule
    return {
        "description": say.encodable("; ".join([say.title(rule), *say.paragraphs(each)])),
        "check_name": rule.id,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[rule.severity],
        "location": {"path": say.encodable(each.location.file), "lines": {"begin": each.location.line}},
    }
