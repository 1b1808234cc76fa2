"""What happened when a run did not complete its window."""

from __future__ import annotations

from autotune.model.evidence import RUN
from autotune.model.report import Report
from autotune.report.text.layout import StyledLine, with_label, wrap
from autotune.report.units import duration, size

_WHAT = {
    "ended_early": "The script ended by itself{steps}; the window is incomplete.",
    "raised": "The script failed{steps}.",
    "out_of_memory": "The script ran out of memory{steps}.",
    "killed_for_memory": "The script was killed{steps}: it reached the memory limit.",
    "killed": "The script was killed{steps}.",
    "timed_out": "The time limit was reached{steps}; the window is incomplete.",
    "no_step": "The script reached no optimizer step{wall}.",
    "interrupted": "Interrupted{steps}.",
}


def lines(report: Report, width: int) -> list[StyledLine]:
    """The outcome, the script's own error and, out of memory, a table; nothing for a completed run."""
    run = report.run
    if run.outcome == "completed":
        return []
    wall = f" in {duration(run.wall_s)}" if run.wall_s is not None else ""
    what = _WHAT[run.outcome].format(steps=_steps(report), wall=wall)
    style = "heading" if run.outcome == "ended_early" else "bad"
    lines = [StyledLine(line.text, style) for line in wrap(what, width)]
    if run.error:
        lines += wrap(run.error, width, first="  ", rest="  ")
    return lines + (_memory(report, width) if _is_memory(report) else [])


def _steps(report: Report) -> str:
    count = report.num_steps_run
    if count is None:
        return ""
    if count == 0:
        return " before its first optimizer step"
    return f" after {count:,} optimizer step{'s' if count > 1 else ''}"


def _is_memory(report: Report) -> bool:
    return (
        report.run.outcome in ("out_of_memory", "killed_for_memory")
        or report.evidence.lookup(RUN, "memory.ran_out") is True
    )


def _memory(report: Report, width: int) -> list[StyledLine]:
    limit, peak, share, asked = (
        report.evidence.lookup(RUN, f"memory.{name}")
        for name in ("limit_bytes", "peak_bytes", "used_share", "asked_bytes")
    )
    phase = report.evidence.lookup(RUN, "memory.failing_phase")
    of_limit = f" ({share * 100:.0f} % of the limit)" if isinstance(share, float) else ""
    return [
        *(with_label("limit", size(limit), width) if isinstance(limit, int | float) else []),
        *(with_label("peak", size(peak) + of_limit, width) if isinstance(peak, int | float) else []),
        *(with_label("asked", f"{size(asked)} more", width) if isinstance(asked, int | float) else []),
        *(with_label("in", str(phase), width) if phase is not None else []),
    ]
