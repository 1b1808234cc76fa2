"""The runs under watch: a line for each process, and below it what has drifted."""

from __future__ import annotations

from autotune.model.watched import WatchedProcess, WatchedRow, WatchedRuns
from autotune.report.text.layout import MIN_WIDTH, StyledLine, paragraph, spread, to_text, wrap
from autotune.report.units import duration, percent, size, step_time

_STYLES = {"running": "apply", "stale": "decide", "raised": "bad", "killed": "bad", "ended": ""}
_INDENT = "  "
IDLE_S = 60.0
"""A running process without a step for so long says so."""


def render(runs: WatchedRuns, colour: bool, width: int) -> str:
    """The report as text."""
    width = max(MIN_WIDTH, width)
    lines: list[StyledLine] = []
    folder = None
    for row in runs.rows:
        if row.folder != folder:
            folder = row.folder
            lines += [*([StyledLine("")] if lines else []), StyledLine(f"{row.process.script}  {folder}", "heading")]
        lines += _process(row, width)
    for path, why in runs.unreadable.items():
        lines += paragraph(f"Not read: {path}", why, width)
    if runs.left_out:
        lines += [StyledLine(""), StyledLine(f"{runs.left_out} runs that ended earlier are not shown")]
    return to_text(lines, colour, width)


def _process(row: WatchedRow, width: int) -> list[StyledLine]:
    process = row.process
    lines = spread(f"{_rank(process)}{_life(row)}, step {process.steps:,}", _speed(process), width, _STYLES[row.life])
    for text in _details(row):
        lines += wrap(text, width, first=_INDENT, rest=_INDENT * 2)
    return lines


def _rank(process: WatchedProcess) -> str:
    return f"rank {process.rank}: " if process.rank or (process.world_size or 1) > 1 else ""


def _life(row: WatchedRow) -> str:
    since = duration(row.seen_s)
    seen = f"{since} ago"
    if row.life == "running":
        idle = row.idle_s is not None and row.idle_s > IDLE_S
        return f"running, no step for {duration(row.idle_s or 0.0)}" if idle else "running"
    if row.life == "stale":
        return f"no sign from {row.process.host.partition(' ')[0]} for {since}"
    if row.life == "killed":
        return f"killed: process {row.process.pid} is gone, last seen {seen}"
    return f"ended by {row.process.error} {seen}" if row.life == "raised" else f"ended {seen}"


def _speed(process: WatchedProcess) -> str:
    parts = []
    if process.step_ms is not None:
        parts.append(f"{step_time(process.step_ms)} per step")
    if process.first_step_ms is not None and process.windows:
        parts.append(f"{step_time(process.first_step_ms)} at step {process.windows[0].step:,}")
    wait = process.windows[-1].wait_share if process.windows else None
    if wait is not None:
        parts.append(f"data wait {percent(wait)}")
    return ", ".join(parts)


def _details(row: WatchedRow) -> list[str]:
    """What has drifted, and what else there is to know."""
    process = row.process
    lines = [f"{one.text} (said after step {one.said_at_step:,})" for one in process.drift]
    if process.windows:
        last = process.windows[-1]
        memory = f", memory {size(process.memory_bytes)}" if process.memory_bytes is not None else ""
        several = f"{len(process.windows)} windows, the last" if len(process.windows) > 1 else "one window"
        lines.append(f"{several} after step {last.step:,}{memory}")
        if not process.drift:
            lines[-1] += "; nothing has drifted"
    else:
        lines.append("no window yet")
    if process.failure is not None:
        lines.append(f"no longer watched, by a bug of autotune: {process.failure}")
    return lines
