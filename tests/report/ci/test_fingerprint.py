from __future__ import annotations

import pytest
from check_builders import CALL, NO_WORKERS, SAVES, bundle, finding
from msgspec.structs import replace

from autotune.model.evidence import Location
from autotune.model.finding import Finding
from autotune.report.ci.fingerprint import fingerprints
from autotune.report.findings import bundle_location


def marks(*findings: Finding) -> tuple[str, ...]:
    return fingerprints([bundle_location(bundle("train.py"), each) for each in findings])


def at(location: Location) -> Finding:
    return replace(NO_WORKERS, location=location)


def test_a_finding_that_moves_or_whose_numbers_change_stays_the_same() -> None:
    moved = replace(at(replace(CALL, line=80, column=3, end_line=90)), message="(1 workers)")
    assert marks(moved) == marks(NO_WORKERS)


@pytest.mark.parametrize(
    "other",
    [
        at(replace(CALL, file="eval.py")),
        at(replace(CALL, call="NeighborLoader")),
        at(replace(CALL, key="num_workers")),
        replace(NO_WORKERS, subject="loader#2"),
        replace(NO_WORKERS, rule=SAVES),
    ],
)
def test_another_problem_is_another_finding(other: Finding) -> None:
    assert marks(other) != marks(NO_WORKERS)


def test_the_same_twice_is_two() -> None:
    first, second = marks(NO_WORKERS, NO_WORKERS)
    assert first != second
    assert marks(NO_WORKERS) == (first,)


def test_a_file_name_that_is_no_unicode_has_one_too() -> None:
    assert len(marks(finding(SAVES, "", Location("\udcff.py", 1)))) == 1
