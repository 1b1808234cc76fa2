"""The line of a run whose length was not known before its end."""

from __future__ import annotations

import pytest
from job_builders import job
from msgspec import to_builtins

from autotune.collect import artefacts
from autotune.diagnose import job_summaries


@pytest.fixture
def stored(tmp_path):
    """stored(**line): a run folder that keeps this line."""

    def make(**line):
        row = to_builtins(job_summaries.StoredSummary(job(**line), "/the/job"))
        artefacts.write_json(tmp_path / job_summaries.FILE, {"schema": job_summaries.SCHEMA, **row})
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("share", "hours", "expected"),
    [(0.25, None, 0.5), (0.0, None, 0.0), (0.25, 3.0, 3.0), (None, None, None)],
    ids=["half an hour of two", "nothing to save", "known before", "no gain is known"],
)
def test_what_a_run_of_unknown_length_lost_is_known_at_its_end(stored, share, hours, expected):
    folder = stored(lost_share=share, hours_lost=hours)
    job_summaries.complete(folder, 7200.0)
    found = job_summaries.read(folder)
    assert found.summary.hours_lost == expected
    assert found.job == "/the/job"


def test_of_a_run_without_a_line_nothing_is_made(tmp_path):
    job_summaries.complete(tmp_path, 7200.0)
    assert list(tmp_path.iterdir()) == []
