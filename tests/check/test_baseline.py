from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune.check.baseline import fingerprint, read, write
from autotune.engine.load import load_rules
from autotune.errors import UsageError
from autotune.model.evidence import Location
from autotune.model.finding import Finding

RULE = next(rule for rule in load_rules() if rule.id == "DL001")
FINDING = Finding(RULE, "loader#train", "0 workers", ())
PLACE = Location("train.py", 2, "DataLoader")
LINES = "import torch\nloader = DataLoader(data)\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(LINES)
    return tmp_path


def changed(root: Path, text: str, folder: str = "changed") -> Path:
    """A root in which train.py is `text`."""
    place = root / folder
    place.mkdir()
    (place / "train.py").write_text(text)
    return place


def test_a_fingerprint_survives_moves_and_blanks(root) -> None:
    moved = changed(root, "# more\n\n" + LINES.replace("loader = ", "  loader   = "))
    assert fingerprint(FINDING, replace(PLACE, line=4), moved) == fingerprint(FINDING, PLACE, root)


@pytest.mark.parametrize(
    ("finding", "place"),
    [
        (replace(FINDING, rule=replace(RULE, id="DL002")), PLACE),
        (FINDING, replace(PLACE, file="other.py")),
        (FINDING, replace(PLACE, call="Loader")),
        (FINDING, replace(PLACE, key="--workers")),
        (FINDING, replace(PLACE, line=1)),
    ],
)
def test_a_fingerprint_tells_findings_apart(finding: Finding, place: Location, root) -> None:
    (root / "other.py").write_text(LINES)
    assert fingerprint(finding, place, root) != fingerprint(FINDING, PLACE, root)


def test_a_fingerprint_ends_with_its_line_and_not_with_the_message(root) -> None:
    mark = fingerprint(FINDING, PLACE, root)
    assert fingerprint(replace(FINDING, message="1 worker"), PLACE, root) == mark
    assert fingerprint(FINDING, PLACE, changed(root, LINES.replace("data", "other"))) != mark


@pytest.mark.parametrize("place", [Location("gone.py", 3), Location("train.py", 0), Location("train.py", 99)])
def test_a_place_without_text_has_a_fingerprint(place: Location, root) -> None:
    assert len(fingerprint(FINDING, place, root)) == 32


def test_what_is_written_is_read_again(root) -> None:
    twice = [(FINDING, PLACE), (FINDING, PLACE), (replace(FINDING, rule=replace(RULE, id="AT001")), PLACE)]
    file = root / "baseline.json"
    counts = write(file, twice, root)
    assert read(file) == counts
    assert sorted(counts.values()) == [1, 2]
    rows = json.loads(file.read_text())["findings"]
    assert [(row["rule"], row["file"], row["count"]) for row in rows] == [
        ("AT001", "train.py", 1),
        ("DL001", "train.py", 2),
    ]


def test_the_order_of_findings_does_not_change_the_file(root) -> None:
    two = [(FINDING, PLACE), (FINDING, replace(PLACE, line=1))]
    write(root / "a.json", two, root)
    write(root / "b.json", two[::-1], root)
    assert (root / "a.json").read_text() == (root / "b.json").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 2, "findings": []}',
        '{"schema": 1}',
        '{"schema": 1, "findings": [{}]}',
        "[" * 100_000,
    ],
)
def test_another_file_is_no_baseline(text: str, tmp_path) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(UsageError, match="this is not a baseline file") as raised:
        read(tmp_path / "b.json")
    assert raised.value.where == str(tmp_path / "b.json")


def test_a_baseline_that_cannot_be_read_or_written_is_a_usage_error(tmp_path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        write(tmp_path / "no" / "b.json", [], tmp_path)
