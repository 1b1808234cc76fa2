"""One JSON object, schema 1, described by `check.schema.json` beside this file. An unknown value is null.

A finding and a skipped rule have every key that they have in the report of `diagnose`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune import __version__
from autotune.model.checked import Checked, CheckedBundle, Gate
from autotune.model.evidence import Location
from autotune.model.finding import Finding
from autotune.model.scanned import ScanNote
from autotune.report import findings as say
from autotune.report import next_commands
from autotune.report.json.encode import SCHEMA, dumps
from autotune.report.json.findings import edit_json, finding_json, location_json, skipped_json
from autotune.report.json.next_commands import next_json

if TYPE_CHECKING:
    from autotune.report.json import documents as doc


def render(checked: Checked, colour: bool, width: int) -> str:
    """The object in one line. Keys keep the order of the schema."""
    return dumps(document(checked))


def document(checked: Checked) -> doc.CheckDocument:
    """The result as plain values."""
    bundles = checked.bundles
    return {
        "schema": SCHEMA,
        "tool": {"name": "autotune", "version": __version__},
        "root": checked.root,
        "fails": checked.fails,
        "fail_on": checked.fail_on,
        "num_files": checked.num_files,
        "num_rules": checked.num_rules,
        "bundles": [_bundle(each) for each in bundles],
        "findings": [_finding(each.bundle, each.finding) for each in say.locate_findings(checked)],
        "skipped": [{**skipped_json(each), "bundle": one.bundle.name} for one in bundles for each in one.skipped],
        "silenced": [
            {**_finding(one.bundle.name, each.finding), "by": each.by, "reason": each.reason or None}
            for one in bundles
            for each in one.silenced
        ],
        "notes": [_note(each) for each in say.notes(checked)],
        "gates": [_gate(each) for each in checked.gates],
        "next": next_json(next_commands.of_checked(checked)),
    }


def _bundle(each: CheckedBundle) -> doc.Bundle:
    return {
        "name": each.bundle.name,
        "files": list(each.bundle.files),
        "dialects": list(each.bundle.dialects),
        "num_findings": len(each.findings),
        "num_skipped": len(each.skipped),
        "num_passed": each.num_passed,
        "num_silenced": len(each.silenced),
    }


def _finding(bundle: str, finding: Finding) -> doc.FileFinding:
    """What `diagnose` writes, and what a reader of files needs: exact places, spelled changes, advice."""
    return {
        **finding_json(finding, None),
        "location": _place(finding.location),
        "changes": [{**edit_json(each), "location": _place(each.location)} for each in finding.changes],
        "gain": None,
        "install": None,
        "script": None,
        "advice": list(finding.advice),
        "places": [place for each in finding.places if (place := _place(each)) is not None],
        "bundle": bundle,
    }


def _place(location: Location | None) -> doc.Place | None:
    base = location_json(location)
    if location is None or base is None:
        return None
    return {
        **base,
        "column": location.column or None,
        "end_line": location.end_line or None,
        "key": location.key or None,
    }


def _note(note: ScanNote) -> doc.ReadNote:
    return {"where": note.where, "why": note.why, "is_error": note.is_error, "is_bug": note.is_bug}


def _gate(gate: Gate) -> doc.GateResult:
    return {"fact": gate.fact, "value": gate.value, "limit": gate.limit, "holds": gate.holds, "why": gate.why}
