"""Small builders of rules and evidence: what a test does not say is plausible, what it says is exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.engine.examples import evidence_of
from autotune.model.evidence import Evidence, Location, Setting, Value
from autotune.model.finding import Finding, Gain, SettingChange
from autotune.model.rule import Effect, Limit, Rule, Severity

TRAIN = "loader#train"
HERE = Location("train.py", 12, "DataLoader")


def rule(rule_id: str = "DL001", **given: Any) -> Rule:
    fields: dict[str, Any] = {
        "name": f"problem-of-{rule_id.lower()}",
        "summary": "Something is slow.",
        "since": "0.1",
        "status": "stable",
        "severity": Severity.HIGH,
        "confidence": "high",
        "subject": "loader",
        "when": "loader.wait_share >= limits.min_wait",
        "message": "{loader.wait_share} of the step waits",
        "why": "Because.",
        "references": ("a source",),
        "limits": {"min_wait": Limit(0.05, "share", "below it the gain is noise")},
        "fixes": (),
        "gain": None,
        "examples": (),
        "file": f"dataloader/{rule_id}.toml",
    }
    return Rule(id=rule_id, **{**fields, **given})


def evidence(values: Mapping[str, Value], subject: str = TRAIN) -> Evidence:
    return evidence_of(values, subject)


def with_settings(base: Evidence, *settings: Setting) -> Evidence:
    return Evidence(base.facts, {**base.settings, **{(one.subject, one.name): one for one in settings}})


def change(setting: str = "loader.num_workers", new: Value = 4, **given: Any) -> SettingChange:
    return SettingChange(setting, **{"old": 0, "new": new, "effect": Effect.EQUIVALENT, "location": HERE, **given})


def finding(
    rule_id: str, *changes: SettingChange, gain: Gain | None = None, subject: str = TRAIN, **given: Any
) -> Finding:
    severity = given.pop("severity", Severity.HIGH)
    return Finding(rule(rule_id, severity=severity), subject, "said", changes, gain=gain, **given)


def gain(speedup: float, saved_s: float | None = None) -> Gain:
    return Gain(speedup, speedup - 0.1, speedup + 0.1, "measured", saved_s)
