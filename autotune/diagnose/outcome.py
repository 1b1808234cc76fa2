"""How a measurement ended: the summary of its run, and the error where there is nothing to report on."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.derive import startup
from autotune.errors import AutotuneError, InternalError, ScriptError
from autotune.invocation.redacted import shown
from autotune.model.recording import Json, Recording
from autotune.model.report import Outcome, RunSummary
from autotune.report.text import startup as startup_text
from autotune.report.units import duration

if TYPE_CHECKING:
    from autotune.collect import Collected

_FULL_DISK = (
    "What it writes while it is measured goes to scratch on the same disk, which is deleted afterwards: make room, or"
    " let it save less."
)


def summarise(
    collected: Collected, words: Sequence[str], python: str, python_from: str, kept_going: bool, cwd: Path
) -> RunSummary:
    """The RunSummary of a measurement that just ended; redirected paths are relative to `cwd` where they lie in it."""
    first = collected.recordings[0] if collected.recordings else None
    window = first.window if first is not None else None
    return RunSummary(
        folder=str(collected.folder),
        command=shown(words, cwd, first.process["argv"] if first is not None else None),
        outcome=_outcome(collected, first),
        python=python,
        python_from=python_from,
        wall_s=collected.wall_s,
        startup_s=collected.startup_s,
        num_steps=_num_steps(first),
        warmup_steps=window.warmup_steps if window is not None else None,
        num_processes=len(collected.recordings),
        kept_going=kept_going,
        replayed=any(one.name in ("replay", "micro_batch") for one in first.what_ifs) if first is not None else False,
        error=_error(first) or (f"exit code {collected.exit_code}" if _script_failed(collected) else ""),
        overhead_share=_overhead(first),
        redirected=tuple(_relative(path, cwd) for path in _redirected_paths(collected)),
        blocked=_paths(collected.recordings, "blocked", "what"),
        not_isolated=_not_isolated(collected),
        isolation=collected.effects.layer,
        isolation_why=collected.effects.why,
        escaped=tuple(_relative(path, cwd) for path in collected.effects.escaped),
        not_covered=collected.effects.gaps,
        other_devices=collected.effects.other_devices,
        is_compared=collected.effects.is_whole,
        ended=collected.effects.ended,
    )


def interpreter(collected: Collected, python: str, why: str) -> tuple[str, str]:
    """The interpreter that really trained, and how that is known; the planned one when no Recording tells.

    A shell or launcher starts whichever Python it finds: where that is of another environment than `--python` names,
    the report says so.
    """
    if not collected.recordings:
        return python, why
    seen = str(collected.recordings[0].process["executable"])
    if seen == python:
        return python, why
    missed = why == "--python" and Path(seen).parent != Path(python).parent
    return seen, f"the training process; --python {python} did not reach it" if missed else "the training process"


def check(run: RunSummary, collected: Collected) -> None:
    """Raise ScriptError when there is nothing to report on: no step, and no death of memory to explain.

    Raises InternalError when it was the probe that ended the script before its window was over.
    """
    if collected.bugs and run.outcome != "completed":
        notes = "\n".join(collected.bugs)
        raise InternalError(f"internal error: the probe failed in the script's process and ended it\n{notes}")
    if run.outcome in ("completed", "ended_early", "out_of_memory", "killed_for_memory"):
        return
    if any(one.window is not None for one in collected.recordings):
        return
    failure = _failure(run, collected)
    failure.to_do += _startup(collected)
    if run.escaped:
        failure.to_do += f"\nChanged in your files meanwhile: {', '.join(run.escaped)}"
    raise failure


def _startup(collected: Collected) -> str:
    """What it did instead of training, where that took long."""
    recorded = [one.startup for one in collected.recordings if one.startup is not None]
    found = recorded[0] if recorded else collected.startup
    if found is None or startup.total_s(found, None) < startup_text.SHOWN_FROM_S:
        return ""
    total_s = startup.total_s(found, None)
    lines = startup_text.table(startup.parts(found, None), str(collected.folder), _WIDTH)
    return "\n".join(["", f"What it did for {duration(total_s)}:", *(line.text for line in lines)])


_WIDTH = 120


def _failure(run: RunSummary, collected: Collected) -> AutotuneError:
    script = " ".join(run.command[:2])
    if collected.ended_by == "startup_limit":
        return ScriptError(
            f"it reached no optimizer step in {collected.wall_s:.0f} s; it was in {collected.waiting_in or 'start-up'}",
            where=script,
            to_do="Allow more time with --startup-limit SECONDS.",
        )
    if collected.ended_by == "not_injected":
        return ScriptError(
            "a Python process of this command ignores the environment, so nothing can be measured in it;"
            " it was ended before it could train unwatched",
            where=script,
            to_do="Start the training script directly: autotune diagnose train.py [ARGS...]",
        )
    return _no_step(run, collected, script)


def _no_step(run: RunSummary, collected: Collected, script: str) -> AutotuneError:
    when = "before its first optimizer step" if not run.num_steps else "after one optimizer step, too few to measure"
    if run.error.startswith("EOFError"):
        return ScriptError(
            "it asked for input, which a measurement cannot give",
            where=script,
            to_do="Pass the answer as an argument or a setting.",
        )
    if run.error:
        has_no_space = os.strerror(errno.ENOSPC) in run.error
        return ScriptError(
            f"it failed {when}: {run.error}",
            where=script,
            to_do=_FULL_DISK if has_no_space else "Its own message is above. Fix it, then diagnose again.",
            status=collected.exit_code,
            said=collected.said,
        )
    if collected.exit_code:
        return ScriptError(
            f"it ended with exit code {collected.exit_code} {when}",
            where=script,
            to_do="Run it without autotune first; its own message is above.",
            status=collected.exit_code,
            said=collected.said,
        )
    return ScriptError(
        "it ended without an optimizer step",
        where=script,
        to_do="Pass the arguments that make it train for more than one step.",
    )


def _outcome(collected: Collected, first: Recording | None) -> Outcome:
    if first is not None and first.outcome == "ended_early" and _script_failed(collected):
        return "raised"
    if first is not None and first.outcome in ("completed", "out_of_memory", "raised", "ended_early"):
        return first.outcome
    if collected.sampled is not None and collected.sampled.was_killed_for_memory:
        return "killed_for_memory"
    if collected.ended_by in ("startup_limit", "time_limit"):
        return "timed_out"
    return "raised" if collected.exit_code else "no_step"


def _script_failed(collected: Collected) -> bool:
    """Whether the command ended by itself, and not well."""
    return collected.ended_by == "script" and bool(collected.exit_code)


def _error(first: Recording | None) -> str:
    if first is None or first.error is None:
        return ""
    error, frames = first.error, first.error["traceback"]
    text = f"{error['type']}: {error['message']}" if error["message"] else str(error["type"])
    return f"{text} at {frames[-1]}" if frames else text


def _overhead(first: Recording | None) -> float | None:
    """What the probe spent on its events and samples, of the window's wall time; samples run beside training."""
    if first is None or first.window is None:
        return None
    spent = first.overhead["event_ns"] + first.overhead["sampler_ns"]
    return float(spent) / max(1, first.window.end_ns - first.window.start_ns)


def _num_steps(first: Recording | None) -> int | None:
    """Optimizer steps made; a process that never ran a backward made none."""
    if first is None:
        return None
    if first.window is not None:
        return len(first.window.step_ends_ns)
    # One step makes no window; the optimizer that stepped first is the one that is counted.
    steps = [event.ref for event in first.events if event.kind == "optimizer"]
    return steps.count(steps[0]) if steps else 0


def _relative(path: str, cwd: Path) -> str:
    place = Path(path)
    return str(place.relative_to(cwd)) if place.is_relative_to(cwd) else path


def _redirected_paths(collected: Collected) -> tuple[str, ...]:
    return tuple(dict.fromkeys(change.path for change in collected.effects.redirected))


def _not_isolated(collected: Collected) -> tuple[str, ...]:
    """What Recordings name, with how often, and what processes without one named."""
    recorded = _paths(collected.recordings, "not_isolated", "what")
    noted = collected.effects.not_isolated
    return (*recorded, *(what for what in noted if not any(_is_counted(what, text) for text in recorded)))


def _is_counted(what: str, text: str) -> bool:
    """Whether a row of a Recording is about `what`, with how often behind it."""
    return re.fullmatch(rf"{re.escape(what)}( \(\d+ times\))?", text) is not None


def _paths(recordings: Sequence[Recording], kind: str, name: str) -> tuple[str, ...]:
    effects: list[Json] = [one.side_effects for one in recordings]
    rows = [str(row[name]) for one in effects for row in one[kind]]
    return tuple(dict.fromkeys(rows))
