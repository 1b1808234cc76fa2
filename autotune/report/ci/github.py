"""Workflow commands of GitHub Actions: a line each, which GitHub shows beside the code of a pull request.

Escapes and properties: actions/toolkit, packages/core/src/command.ts. GitHub shows the first 10 errors, warnings and
notices of a step, so the gravest come first.
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.checked import Checked
from autotune.model.rule import Severity
from autotune.outlet import clean, escape_marks, plain
from autotune.report import findings as say

_COMMANDS = {
    Severity.CRITICAL: "error",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "notice",
    Severity.INFO: "notice",
}


def render(checked: Checked, colour: bool, width: int) -> str:
    """One command per finding, unreadable file and limit that is not kept; then the counts, in plain words."""
    lines = [*_findings(checked), *_others(checked), f"autotune: {say.totals(checked)}; {say.ending(checked)}"]
    return "".join(f"{line}\n" for line in lines)


def _findings(checked: Checked) -> Iterator[str]:
    for each in say.locate_findings(checked):
        rule, where = each.finding.rule, each.location
        column = {"col": str(where.column)} if where.column else {}
        properties = {"file": where.file, "line": str(where.line), **column, "title": say.title(rule)}
        text = "\n".join([*say.paragraphs(each), f"why: autotune explain {rule.id}"])
        yield _command(_COMMANDS[rule.severity], properties, text)


def _others(checked: Checked) -> Iterator[str]:
    for note in say.notes(checked):
        if note.is_error:
            level = "error" if note.is_bug else "warning"
            yield _command(level, {"title": "autotune: file not read"}, clean(f"{note.where}: {note.why}"))
    for gate in checked.gates:
        if not gate.holds:
            yield _command("error", {"title": "autotune: limit not met"}, clean(say.gate_line(gate)))


def _command(name: str, properties: dict[str, str], message: str) -> str:
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    # Azure Pipelines finds its own commands inside of a line, too.
    return plain(escape_marks(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
