"""The last lines: how sure, what it cost, what was left untouched, what to type next."""

from __future__ import annotations

from pathlib import PurePath

from autotune.model.evidence import RUN
from autotune.model.report import Report, RunSummary
from autotune.report import next_commands
from autotune.report.gains import MIN_STEPS
from autotune.report.text.layout import StyledLine, cells, paragraph, wrap, wrap_command
from autotune.report.units import duration, money, percent, step_time


def lines(report: Report, width: int) -> list[StyledLine]:
    """Noise, notes, side effects, cost and how the job ended."""
    run = report.run
    return [
        *_noise(report, width),
        *(line for note in run.notes for line in paragraph("Note", note, width)),
        *paragraph("Predictions here", report.calibration, width),
        *paragraph("Changed in your files", _changed_files(run), width),
        *paragraph("Redirected to scratch", ", ".join(map(_path_name, run.redirected)), width),
        *paragraph("Blocked", ", ".join(run.blocked), width),
        *paragraph("Not isolated", ", ".join(run.not_isolated), width),
        *paragraph("Files isolated by", _isolation_layer(run), width),
        *paragraph(
            "Stopped", ", ".join(run.ended) and f"{', '.join(run.ended)}: still running after the script ended", width
        ),
        *paragraph("Cost", "" if run.traces else _cost(report), width),
        *wrap(_stop(report), width, rest="  "),
    ]


def _path_name(path: str) -> str:
    """Several files of one folder are recorded as the folder: a dot alone would tell nobody which."""
    return "files in the working folder" if path == "." else path


def _noise(report: Report, width: int) -> list[StyledLine]:
    step = report.step
    if step is None:
        return []
    noise = report.evidence.lookup(RUN, "step.noise_share")
    noun = "step" if step.steps == 1 else "steps"
    how = "profiled" if report.run.traces else "measured"
    text = f"{step.steps} {noun} {how}, median {step_time(step.median_ms)}"
    text += f", 90th percentile {step_time(step.p90_ms)}"
    if isinstance(noise, float):
        text += f"; mean +-{percent(noise)} (90 % interval)"
    if step.steps < MIN_STEPS and not report.run.traces:
        text += f". Fewer than {MIN_STEPS} steps: no gain counts as measured"
    return paragraph("Window", text, width)


def _cost(report: Report) -> str:
    run = report.run
    overhead = f"overhead {percent(run.overhead_share)} (measured)" if run.overhead_share is not None else ""
    return "; ".join(part for part in (_wall(report), overhead or "overhead not measured") if part)


def _wall(report: Report) -> str:
    run = report.run
    if run.wall_s is None:
        return ""
    price = report.price_per_hour
    cost = f", {money(run.wall_s / 3600 * price)}" if price is not None else ""
    startup = f" ({duration(run.startup_s)} until the first step)" if run.startup_s is not None else ""
    return f"{duration(run.wall_s)}{cost}{startup}"


def _stop(report: Report) -> str:
    run = report.run
    if run.traces:
        return f"Read from {_traces(run)}: nothing was run. A profiler slows the host: idle shares are upper bounds."
    if run.kept_going:
        return "The probe detached after the window; training goes on, and saves and logs as usual."
    stopped = ""
    if run.outcome in ("completed", "timed_out", "interrupted"):
        replays = "; it then replayed some of them, so its later output is not training" if run.replayed else ""
        stopped = f"Job stopped after {_count(report)}{replays}."
    return f"{stopped} {_isolation_result(report)}".strip()


def _traces(run: RunSummary) -> str:
    return PurePath(run.traces[0]).name if len(run.traces) == 1 else f"{len(run.traces)} traces"


def _count(report: Report) -> str:
    count = report.num_steps_run
    return "the window" if count is None else "1 step" if count == 1 else f"{count:,} steps"


def _isolation_result(report: Report) -> str:
    run = report.run
    if run.escaped:
        return "Saves, pushes and logs were redirected or blocked, except for the changes in your files listed above."
    if run.not_isolated:
        return "Saves, pushes and logs were redirected or blocked, except for what is listed as not isolated."
    if run.redirected or run.blocked:
        return "Its saves, pushes and logs were redirected or blocked: your files are unchanged."
    if report.step is not None and report.step.breakdown_ms.get("checkpoint"):
        return "Its saves reached none of your files; no push or log was seen."
    return "No save, push or log was seen."


def _changed_files(run: RunSummary) -> str:
    if not run.escaped:
        return ""
    named = ", ".join(map(_path_name, run.escaped[:_MAX_FILES]))
    more = f" and {len(run.escaped) - _MAX_FILES} more" if len(run.escaped) > _MAX_FILES else ""
    return f"{named}{more}: changed during the run, by the script, a program that it started, or someone else"


_MAX_FILES = 10


def _isolation_layer(run: RunSummary) -> str:
    """What kept the files as they were, and what it cannot keep."""
    left_out = f"; not covered: {', '.join(run.not_covered)}" if run.not_covered else ""
    if run.other_devices:
        left_out += f"; writes went to another file system, at its speed: {', '.join(run.other_devices)}"
    if run.isolation == "kernel":
        return f"the kernel (overlay mounts){left_out}"
    if run.isolation == "hooks":
        looked_at = "" if run.is_compared else ", among the first 50,000 files of it"
        return (
            f"Python hooks, because the kernel could not ({run.isolation_why}). They isolate writes of Python and "
            "known libraries; those of compiled code and programs are noticed only if they change the project"
            f"{looked_at}{left_out}"
        )
    return ""


def next_lines(report: Report, width: int) -> list[StyledLine]:
    """The commands that lead on, one a line."""
    commands = list(next_commands.of_report(report))
    column = max(cells(one.command) for one in commands) + 3
    return [
        line
        for index, one in enumerate(commands)
        for line in wrap_command("" if index else "Next", one.command, one.why, column, width)
    ]
