"""Findings, skipped rules, changes and places as JSON, as the reports of `diagnose` and `check` have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.model.evidence import Location
from autotune.model.finding import Finding, Gain, Install, SettingChange, Skipped
from autotune.report.gains import basis

if TYPE_CHECKING:
    from autotune.model.report import Step
    from autotune.report.json import documents as doc


def finding_json(finding: Finding, step: Step | None) -> doc.Finding:
    """A finding; `step` is what its gain was measured on, None without a run."""
    rule = finding.rule
    return {
        "rule": rule.id,
        "subject": finding.subject,
        "name": rule.name,
        "severity": rule.severity,
        "confidence": rule.confidence,
        "message": finding.message,
        "location": location_json(finding.location),
        "changes": [change_json(each) for each in finding.changes],
        "gain": gain_json(finding.gain, step),
        "install": _install(finding.install),
        "script": finding.script.path if finding.script else None,
    }


def _install(install: Install | None) -> doc.Install | None:
    """What advice needs installed; its command is null where no wheel is known to fit, and why."""
    return {"command": install.command or None, "why": install.why} if install else None


def change_json(change: SettingChange) -> doc.Change:
    """A setting to change, in canonical words."""
    return {"setting": change.setting, "old": change.old, "new": change.new, "effect": change.effect}


def edit_json(change: SettingChange) -> doc.Edit:
    """A change with what a person needs to make it."""
    return {
        **change_json(change),
        "location": location_json(change.location),
        "spelling": change.spelling or None,
        "note": change.note or None,
    }


def gain_json(gain: Gain | None, step: Step | None) -> doc.Gain | None:
    """A gain with the basis that may be claimed of `step`, which it was measured on."""
    if gain is None:
        return None
    return {
        "speedup": gain.speedup,
        "low": gain.low,
        "high": gain.high,
        "saved_s": gain.saved_s,
        "basis": basis(gain, step),
    }


def skipped_json(skipped: Skipped) -> doc.SkippedRule:
    """A rule that could not be decided, and the facts that it lacks."""
    return {"rule": skipped.rule.id, "subject": skipped.subject, "needs": list(skipped.needs)}


def location_json(location: Location | None) -> doc.Line | None:
    """A place in a file, to the line."""
    if location is None:
        return None
    place: doc.Line = {"file": location.file, "line": location.line}
    if location.end_line > location.line:
        place["end_line"] = location.end_line
    if location.cell:
        place |= {"cell": location.cell, "cell_line": location.cell_line}
    return place
