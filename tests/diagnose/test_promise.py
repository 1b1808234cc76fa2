"""Whether a job is as fast as expected, by its progress line: 3.33 s before, 2.58 after 1, 1.89 after 1, 2 and 3."""

from __future__ import annotations

import pytest
import report_cases
from build import recording, steps
from msgspec.structs import replace
from report_builders import report, run, step

from autotune.diagnose.outlook import OutlookRequest, outlook
from autotune.diagnose.promise import promise
from autotune.model.evidence import RUN
from autotune.model.outlook import Outlook, Promise
from autotune.model.report import Report
from autotune.predict.progress_line import progress
from autotune.report.text.promise import sentence


def planned() -> Report:
    made = report_cases.full()
    facts = {**made.evidence.facts, RUN: {**made.evidence.facts[RUN], "run.num_planned_steps": 7800}}
    return replace(made, evidence=replace(made.evidence, facts=facts))


def told(line: str) -> Promise:
    found = promise(planned(), progress(line))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rate", "result", "numbers"),
    [
        ("2.60s/it", "kept", (1,)),
        ("1.90s/it", "kept", (1, 2, 3)),
        ("2.90s/it", "unknown", (1,)),  # saves may take the rest
        ("3.30s/it", "as_before", (1,)),
        ("3.60s/it", "as_before", (1,)),
        ("4.50s/it", "broken", (1,)),
        ("30.0s/it", "unknown", (1,)),
        ("99.0it/s", "unknown", (1, 2, 3)),
    ],
)
def test_one_is_kept_and_one_is_broken(rate: str, result: str, numbers: tuple[int, ...]) -> None:
    found = told(f"12%|#| 50/7800 [02:10, {rate}]")
    assert (found.result, found.numbers) == (result, numbers)


def test_a_bar_of_micro_batches_counts_for_a_step() -> None:
    made = planned()
    facts = {**made.evidence.facts, RUN: {**made.evidence.facts[RUN], "train.accumulation_steps": 4}}
    found = promise(replace(made, evidence=replace(made.evidence, facts=facts)), progress("50/31200 [00:30, 0.65s/it]"))
    assert found is not None
    assert (found.result, found.shown_ms) == ("kept", pytest.approx(2600.0))


def test_a_line_without_a_rate_tells_nothing() -> None:
    found = told("step 50/7800")
    assert (found.result, found.shown_ms) == ("unknown", None)
    assert "the line has no rate" in sentence(found)


def test_where_nothing_was_promised_nothing_is_judged() -> None:
    made = report(run=run(planned_steps=100), step=step(forward=10.0))
    assert promise(made, progress("50/100 [00:01, 99it/s]")) is None


def test_a_job_that_has_the_changes_is_not_to_be_restarted_for_them() -> None:
    kept = outlook_of("50/7800 [02:10, 2.60s/it]")
    assert kept.promise is not None and kept.restart is None
    slow = outlook_of("50/7800 [02:10, 3.30s/it]")
    assert slow.promise is not None and slow.restart is not None


def outlook_of(line: str) -> Outlook:
    return outlook(planned(), [recording(steps(3))], OutlookRequest(progress(line)))


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        ("2.60s/it", "As expected after 1: 2.60 s per step (2.58 s expected, 2.71 s at most, 3.33 s before)."),
        ("2.90s/it", "Whether it is as fast as expected after 1 is unknown: 2.90 s per step"),
        ("3.30s/it", "Not faster than before 1: 3.30 s per step"),
        ("30.0s/it", "The line is of another run"),
    ],
)
def test_in_words(rate: str, words: str) -> None:
    assert sentence(told(f"50/7800 [02:10, {rate}]")).startswith(words)


def test_without_saves_a_line_beyond_the_limit_is_slower_than_expected() -> None:
    made = planned()
    assert made.step is not None
    breakdown = {**made.step.breakdown_ms, "checkpoint": None, "evaluation": None}
    found = promise(
        replace(made, step=replace(made.step, breakdown_ms=breakdown)), progress("50/7800 [02:10, 3.20s/it]")
    )
    assert found is not None and found.result == "broken"
