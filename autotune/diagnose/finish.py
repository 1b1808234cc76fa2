"""The last step of a diagnosis: what its patch cannot write, and its outlook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from autotune.diagnose import outlook, write_patch
from autotune.diagnose.build_report import together
from autotune.diagnose.notebook_cells import in_cells
from autotune.engine.recommend import ranked
from autotune.history import predictions
from autotune.model.recording import Recording
from autotune.model.report import Report


def finish(report: Report, recordings: Sequence[Recording], asked: outlook.OutlookRequest, root: Path) -> Report:
    """The report once its patch is there: what that cannot write is the reader's to decide on, and the outlook counts
    on what it can."""
    report = replace(report, calibration=str(predictions.calibration(root) or ""))
    report = write_patch.locate_edits(report)
    recommendations = ranked(report.recommendations, lambda several: together(several, report))
    report = replace(report, recommendations=recommendations)
    return in_cells(replace(report, outlook=outlook.outlook(report, recordings, asked)))
