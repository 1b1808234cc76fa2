"""What the files state, without a run: in the words of a rule's [example], for who writes one."""

from __future__ import annotations

import json
from collections.abc import Iterator

from autotune.model.checked import Checked
from autotune.model.evidence import Location, Value, subject_order
from autotune.model.scanned import Bundle
from autotune.report.labels import cell
from autotune.report.text.layout import StyledLine, to_text


def render(checked: Checked, colour: bool, width: int) -> str:
    """A line for each fact and setting, by bundle. What is not there is unknown: a rule that needs it is skipped."""
    return to_text([line for each in checked.bundles for line in _lines(each.bundle)], colour=False, width=0)


def _lines(bundle: Bundle) -> Iterator[StyledLine]:
    """By subject, then by name: not in the order in which they were found."""
    yield StyledLine(f"# {bundle.name}", whole=True)
    facts = [(one.subject, one.name, one.value, one.places[0] if one.places else None) for one in bundle.facts]
    settings = [(one.subject, one.name, one.value, one.location) for one in bundle.settings if one.value is not None]
    for row in sorted([*facts, *settings], key=lambda row: (subject_order(row[0]), row[1])):
        yield _line(*row)


def _line(subject: str, name: str, value: Value, at: Location | None) -> StyledLine:
    in_cell = f" ({cell(at)})" if at is not None and at.cell else ""
    place = f", {at.file}:{at.line}{in_cell}" if at is not None else ""
    return StyledLine(f'"{name}" = {_toml(value)}  # {subject}{place}', whole=True)


def _toml(value: Value) -> str:
    if isinstance(value, tuple):
        return f'"{".".join(map(str, value))}"'
    return json.dumps(value, ensure_ascii=False)
