"""What only pictures show well: three steps on a time line, the lengths of samples, the workers that were tried."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.report import Report
from autotune.report.note.blocks import Section


def timeline(report: Report) -> Iterator[Section]:
    yield from ()


def lengths(report: Report) -> Iterator[Section]:
    yield from ()


def workers(report: Report) -> Iterator[Section]:
    yield from ()
