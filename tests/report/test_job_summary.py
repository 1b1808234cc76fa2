"""What a job's line says that no single rank of it shows."""

from __future__ import annotations

import pytest
from report_builders import evidence, report, run, step

from autotune.report.job_summary import job_summary

STEP = step(forward=70.0, other=29.0, data_wait=1.0)


@pytest.mark.parametrize(
    ("late", "expected"),
    [({}, 0.01), ({"ranks.late_share": 0.19}, 0.19), ({"ranks.late_share": 0.0}, 0.01)],
    ids=["one rank", "rank 0 is late, and the others wait", "nobody is late"],
)
def test_a_wait_of_the_other_ranks_is_a_wait_of_the_job(late: dict[str, float], expected: float) -> None:
    made = report(run=run(), step=STEP, evidence=evidence({"run": late}))
    assert job_summary(made, "a", None).wait_share == pytest.approx(expected)


def test_without_a_step_no_wait_is_known() -> None:
    assert job_summary(report(run=run("no_step"), step=None), "a", None).wait_share is None
