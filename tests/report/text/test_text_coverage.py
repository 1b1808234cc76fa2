from __future__ import annotations

from report_builders import report, run, step

from autotune.model.evidence import RUN, Evidence
from autotune.model.report import Coverage
from autotune.report.text import coverage


def said(made: Coverage) -> list[str]:
    return [line.text for line in coverage.lines(report(run=run(), step=step(forward=1.0), said=made), 80)]


def test_what_is_right_what_would_not_help_and_what_was_not_looked_at() -> None:
    assert said(Coverage(("loader", "fused AdamW"), ("TF32 (CPU run)",), (("saves", "none seen"),))) == [
        "Already right: loader, fused AdamW",
        "Would not help: TF32 (CPU run)",
        "Not looked at: saves (none seen)",
    ]


def test_topics_of_one_reason_stand_together() -> None:
    topics = (("saves", "none seen"), ("GPU state", "CPU run"), ("evaluation", "none seen"))
    assert said(Coverage(not_looked_at=topics)) == ["Not looked at: saves, evaluation (none seen); GPU state (CPU run)"]


MANY = tuple((f"topic {number}", f"reason {number}") for number in range(9))


def test_many_topics_shrink_to_one_line_that_verbose_unfolds() -> None:
    (line,) = said(Coverage(not_looked_at=MANY))
    assert line == "Not looked at: topic 0, topic 1, topic 2, topic 3 and 5 more (--verbose: why)"
    made = report(run=run(), step=step(forward=1.0), said=Coverage(not_looked_at=MANY))
    whole = " ".join(one.text.strip() for one in coverage.lines(made, 80, verbose=True))
    assert all(f"{topic} ({reason})" in whole for topic, reason in MANY)


def test_a_topic_that_is_too_long_is_counted() -> None:
    assert said(Coverage(not_looked_at=(("x" * 90, "y"), ("z", "y")))) == ["Not looked at: 2 topics (--verbose: why)"]


def test_nothing_to_say() -> None:
    assert said(Coverage()) == []


def test_of_a_trace_nothing_is_said_that_is_true_of_a_run_alone() -> None:
    """With the job's files, too: "no step was measured" would be wrong of steps that a trace shows."""
    skipped = Coverage(not_looked_at=(("step times", "no step was measured"),))

    def told(evidence: Evidence, *command: str) -> str:
        made = report(run=run(traces=("t.json",), command=command), step=None, said=skipped, evidence=evidence)
        return " ".join(line.text.strip() for line in coverage.lines(made, 80))

    start = "Not looked at: what a trace does not tell: the model, "
    assert told(Evidence()) == f"{start}settings and code, padding, memory, saves, evaluations"
    assert told(Evidence(), "train.py") == f"{start}padding, memory, saves, evaluations"
    known = Evidence({RUN: {"memory.peak_bytes": 5}})
    assert told(known, "train.py") == f"{start}padding, saves, evaluations"
