"""How a trial ended, from what its start brought."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.collect import Collected
from autotune.model.derived import Derived
from autotune.model.evidence import Value
from autotune.model.recording import Recording
from autotune.model.tuned import Outcome
from autotune.model.verified import Start
from autotune.report.layout import clean, shorten
from autotune.report.units import step_time

MOST_CELLS = 200
"""Of an error's line: more is kept by nobody."""

Key = tuple[str, str]
End = tuple[Outcome, str]


def ended(collected: Collected, start: Start | None, derived: Derived | None, asked: Mapping[Key, Value]) -> End:
    """The outcome, and the script's own last words or what was observed instead of what was `asked`."""
    first = collected.recordings[0] if collected.recordings else None
    if _is_out_of_memory(collected, first):
        return Outcome.OUT_OF_MEMORY, _last_words(collected, first)
    if collected.bugs:
        return Outcome.FAILED, f"a bug of ours: {collected.bugs[0].splitlines()[0]}"
    if _has_failed(collected, first):
        return Outcome.FAILED, _last_words(collected, first)
    if start is None or derived is None or first is None or first.window is None:
        return _unmeasured(collected)
    if other := _other(derived, asked):
        return Outcome.FAILED, other
    if first.window.ended_by == "time_limit":
        return Outcome.PRUNED, f"{step_time(start.step_ms)} a step after {start.steps}: far too slow to win"
    return Outcome.COMPLETED, ""


def _is_out_of_memory(collected: Collected, first: Recording | None) -> bool:
    killed = collected.sampled is not None and collected.sampled.was_killed_for_memory
    return killed or (first is not None and first.outcome == "out_of_memory")


def _has_failed(collected: Collected, first: Recording | None) -> bool:
    """Whether the script ended by itself, and not well."""
    raised = first is not None and first.outcome == "raised"
    return raised or (collected.ended_by == "script" and bool(collected.exit_code))


def _unmeasured(collected: Collected) -> End:
    where = f"; it was in {collected.waiting_in}" if collected.waiting_in else ""
    if collected.ended_by == "startup_limit":
        return Outcome.TIMED_OUT, f"no optimizer step in {collected.wall_s:.0f} s{where}"
    if collected.ended_by in ("probe", "time_limit"):
        return Outcome.TIMED_OUT, f"no step was measured in {collected.wall_s:.0f} s{where}"
    if collected.ended_by == "not_injected":
        return Outcome.FAILED, "its process ignores the environment, so nothing can be measured in it"
    return Outcome.FAILED, "it ended before a step was measured"


def _last_words(collected: Collected, first: Recording | None) -> str:
    """The line of its error as the script wrote it: a Recording keeps the messages of few."""
    error = first.error if first is not None else None
    lines = [line.strip() for line in collected.said.splitlines() if line.strip()]
    if error is not None:
        lines = [line for line in lines if f"{error['type']}: " in line]
    if lines:
        return shorten(clean(lines[-1]), MOST_CELLS)
    if error is not None:
        return f"{error['type']}: {error['message']}".removesuffix(": ")
    code = collected.exit_code
    return f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _other(derived: Derived, asked: Mapping[Key, Value]) -> str:
    """What was observed instead of what was asked; "" when the run had all of it."""
    seen = {(one.subject, one.name): one.value for one in derived.settings}
    wrong = [(name, value, seen.get((subject, name))) for (subject, name), value in asked.items()]
    found = next(((name, value, had) for name, value, had in wrong if had != value), None)
    if found is None:
        return ""
    name, value, had = found
    observed = "that was not observed" if had is None else f"the run had {had}"
    return f"asked for {name} = {value}, and {observed}"
