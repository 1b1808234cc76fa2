"""docs/claims.md answers every claim of the notes, and names rules that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from autotune.engine.load import load_rules

PAGE = Path(__file__).parents[2] / "docs" / "claims.md"

NUM_CLAIMS = {0: 27, 1: 26, 2: 21, 3: 35, 4: 32}
"""Claims of each note; the notes count from 1, the first of them from 0.1."""

VERDICTS = {"true", "depends", "outdated", "false", "harmful", "no effect", "unproven"}

ROWS = [
    line.strip("| \n").split(" | ")
    for line in PAGE.read_text(encoding="utf-8").partition("## What a CPU shows")[0].splitlines()
    if line[:3].strip("| ").isdigit()
]


def test_every_claim_has_its_answer_once() -> None:
    wanted = [f"{note}.{number}" for note, count in NUM_CLAIMS.items() for number in range(1, count + 1)]
    assert len(wanted) == 141
    assert [row[0] for row in ROWS] == wanted


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_an_answer_is_whole(row: list[str]) -> None:
    _, claim, verdict, condition, covered = row
    assert verdict in VERDICTS
    assert claim and condition
    rules = re.findall(r"[A-Z]{2}\d{3}", covered)
    assert set(rules) <= {rule.id for rule in load_rules()}
    assert covered == ", ".join(rules) if rules else covered.startswith("none: ")


SHOWN = json.loads((PAGE.parents[1] / "benchmarks" / "results" / "claims.json").read_text(encoding="utf-8"))["lines"]


@pytest.mark.parametrize("line", SHOWN, ids=lambda line: " ".join(line["claims"]))
def test_what_was_measured_is_told_as_it_came_out(line: dict[str, Any]) -> None:
    assert set(line["claims"]) <= {row[0] for row in ROWS}
    told = f"| {', '.join(line['claims'])} | {line['what']} | {line['value']} |"
    assert told in PAGE.read_text(encoding="utf-8").splitlines()
