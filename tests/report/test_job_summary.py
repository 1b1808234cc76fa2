"""What a job's line says that no single rank of it shows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from report_builders import evidence, finding, gain, recommendation, report, rule, run, step

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


HALF = recommendation(1, finding(rule("DL001"), "seen", gain=gain(2.0, 1.8, 2.2)))
UNKNOWN = recommendation(1, finding(rule("DL006"), "seen"))


@pytest.mark.parametrize(
    ("changes", "planned", "share", "hours"),
    [
        ((HALF,), 72_000, 0.5, 1.0),
        ((HALF,), None, 0.5, None),
        ((UNKNOWN,), 72_000, None, None),
        ((UNKNOWN,), None, None, None),
    ],
    ids=["known", "a loop without an end", "no gain is known", "neither is known"],
)
def test_the_share_that_is_lost_needs_no_length_of_the_run(changes, planned, share, hours) -> None:
    """Steps of 100 ms: two hours of 72,000."""
    line = job_summary(report(*changes, run=replace(run(), planned_steps=planned), step=STEP), "a", None)
    assert line.lost_share == (None if share is None else pytest.approx(share))
    assert line.hours_lost == (None if hours is None else pytest.approx(hours))
