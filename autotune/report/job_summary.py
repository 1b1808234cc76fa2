"""A report in one line, for who looks at many."""

from __future__ import annotations

from autotune import __version__
from autotune.model.evidence import RUN
from autotune.model.job import JobSummary
from autotune.model.report import RANK_WAIT, Report, Step
from autotune.report.bound import bound
from autotune.report.gains import is_whole_run
from autotune.report.labels import words
from autotune.report.stages import Stage, stages

WAITS = ("data_wait", RANK_WAIT)


def job_summary(report: Report, run: str, began: str | None) -> JobSummary:
    """The line of the report on run `run`, which was measured at `began`."""
    step, evidence = report.step, report.evidence
    name, share = bound(report, step) if step is not None else (None, None)
    findings = [one for one in report.evaluation.findings if not one.rule.is_question]
    world, busy = evidence.lookup(RUN, "run.world_size"), evidence.lookup(RUN, "device.busy_share")
    device = report.machine.get("gpu_name") or evidence.lookup(RUN, "device.type")
    return JobSummary(
        run=run,
        folder=report.run.folder,
        began=began,
        command=report.run.command,
        outcome=report.run.outcome,
        hosts=report.hosts,
        ranks=world if isinstance(world, int) else None,
        missing_ranks=report.missing_ranks,
        device=str(device) if device is not None else None,
        step_ms=step.mean_ms if step is not None else None,
        planned_steps=report.run.planned_steps,
        bound=name,
        bound_share=share,
        wait_share=_wait_share(step, evidence.lookup(RUN, "ranks.late_share")),
        busy_share=busy if isinstance(busy, float) else None,
        lost_share=_lost_share(report),
        hours_lost=_hours_lost(report),
        first_fix=findings[0].rule.id if findings else None,
        first_fix_name=words(findings[0].rule) if findings else None,
        version=__version__,
    )


def _wait_share(step: Step | None, late_share: object) -> float | None:
    """None where no wait was looked for. The step is that of rank 0: where this is the late one, the others wait."""
    known = [step.breakdown_ms.get(phase) for phase in WAITS] if step is not None else []
    seen = [ms for ms in known if ms is not None]
    shares = [sum(seen) / step.mean_ms] if step is not None and seen else []
    return max([*shares, *([late_share] if isinstance(late_share, float) else [])], default=None)


def _lost_share(report: Report) -> float | None:
    found = _known_stages(report)
    return max(0.0, 1 - found[-1].seconds / found[0].seconds) if found else None


def _hours_lost(report: Report) -> float | None:
    found = _known_stages(report) if is_whole_run(report) else ()
    return max(0.0, found[0].seconds - found[-1].seconds) / 3600 if found else None


def _known_stages(report: Report) -> tuple[Stage, ...]:
    """The stages of a report whose lost time is known; empty for any other report."""
    found = stages(report)
    return found if len(found) > 1 or (found and _is_clean(report)) else ()


def _is_clean(report: Report) -> bool:
    """Whether nothing was found: then nothing is lost that is known. Where a finding has no gain, its loss is not."""
    return not report.recommendations and bool(report.evaluation.passed)
