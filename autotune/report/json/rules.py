"""The list of rules as one JSON object, schema 1: {"schema": 1, "rules": [...]}."""

from __future__ import annotations

import json
from collections.abc import Sequence

from autotune.model.explanation import ListedRule
from autotune.report.json.encode import SCHEMA, Json


def render(rules: Sequence[ListedRule], colour: bool, width: int) -> str:
    """The object, indented: people read it too."""
    return json.dumps({"schema": SCHEMA, "rules": list(map(_row, rules))}, indent=2) + "\n"


def _row(listed: ListedRule) -> Json:
    rule = listed.rule
    return {
        "id": rule.id,
        "name": rule.name,
        "severity": rule.severity,
        "confidence": rule.confidence,
        "status": rule.status,
        "since": rule.since,
        "subject": rule.subject,
        "decides_without_a_run": listed.decides_without_a_run,
        "summary": rule.summary,
        "settings": list(dict.fromkeys(fix.setting for fix in rule.fixes if fix.setting)),
    }
