"""The outcome of a trial."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from autotune.collect import Collected
from autotune.model.derived import Derived
from autotune.model.evidence import Value
from autotune.model.recording import Recording
from autotune.model.tuned import Key, Outcome, OutOfMemoryNote
from autotune.model.verified import RunResult
from autotune.report.units import step_time

_ERROR = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit))(?::|$)")
"""How the last line of a traceback begins."""

GLOBAL_BATCH = "run.global_batch"
SAME_BATCH_SHARE = 0.01
"""Relative difference up to which the global batch of a trial counts as that of the baseline."""


class End(Struct, frozen=True):
    """The outcome of a trial; `error` and `ran_out` as in a SearchTrial."""

    outcome: Outcome
    error: str = ""
    ran_out: OutOfMemoryNote | None = None


def ended(
    collected: Collected,
    start: RunResult | None,
    derived: Derived | None,
    asked: Mapping[Key, Value],
    global_batch: Value | None = None,
    not_comparable: str = "",
) -> End:
    """The outcome, with the last words of the script or the difference between what was observed and `asked`.

    `global_batch` is the number of samples that has to stay the same; None where it may change or is not known.
    `not_comparable` says why the speed cannot be compared with that of the baseline; "" where it can.
    """
    first = collected.recordings[0] if collected.recordings else None
    ran_out = _ran_out(collected, first)
    if ran_out is not None:
        return End(Outcome.OUT_OF_MEMORY, _last_words(collected, first), ran_out)
    if collected.bugs:
        return End(Outcome.FAILED, f"internal error: {collected.bugs[0].splitlines()[0]}")
    if _has_failed(collected, first):
        return End(Outcome.FAILED, _last_words(collected, first))
    if start is None or derived is None or first is None or first.window is None:
        return _unmeasured(collected)
    if other := _other(derived, asked) or _other_batch(derived, global_batch) or not_comparable:
        return End(Outcome.FAILED, other)
    if first.window.ended_by == "time_limit":
        return End(Outcome.PRUNED, f"{step_time(start.step_ms)} a step after {start.steps}: too slow to win")
    return End(Outcome.COMPLETED)


def _ran_out(collected: Collected, first: Recording | None) -> OutOfMemoryNote | None:
    """Which memory ran out; None where none did. For a device torch raises an error type of its own or names CUDA; the
    kernel kills a process only for the memory of the host."""
    if first is not None and first.outcome == "out_of_memory":
        error = first.error or {"type": "", "message": ""}
        is_devices = error["type"] == "OutOfMemoryError" or "cuda" in error["message"].lower()
        return OutOfMemoryNote.DEVICE if is_devices else OutOfMemoryNote.HOST
    was_killed = collected.sampled is not None and collected.sampled.was_killed_for_memory
    return OutOfMemoryNote.HOST if was_killed else None


def _has_failed(collected: Collected, first: Recording | None) -> bool:
    """Whether the script ended by itself with an error."""
    raised = first is not None and first.outcome == "raised"
    return raised or (collected.ended_by == "script" and bool(collected.exit_code))


def _unmeasured(collected: Collected) -> End:
    where = f"; it was in {collected.waiting_in}" if collected.waiting_in else ""
    if collected.ended_by == "startup_limit":
        return End(Outcome.TIMED_OUT, f"no optimizer step in {collected.wall_s:.0f} s{where}")
    if collected.ended_by in ("probe", "time_limit"):
        return End(Outcome.TIMED_OUT, f"no step was measured in {collected.wall_s:.0f} s{where}")
    if collected.ended_by == "not_injected":
        return End(Outcome.FAILED, "its process ignores the environment, so nothing can be measured in it")
    return End(Outcome.FAILED, "it ended before a step was measured")


def _last_words(collected: Collected, first: Recording | None) -> str:
    """The type of the error and its last frame. A message may quote data and is left out, except that of a memory
    error, which torch words."""
    error = first.error if first is not None else None
    if error is not None:
        text = f"{error['type']}: {error['message']}".removesuffix(": ")
        # The name of the file is enough: its path may lead into the scratch copy.
        return f"{text} at {error['traceback'][-1].rpartition('/')[2]}" if error["traceback"] else text
    last = _ERROR.match(collected.said.rstrip().rpartition("\n")[2])
    if last is not None:
        return last[1]
    code = collected.exit_code
    return f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _other(derived: Derived, asked: Mapping[Key, Value]) -> str:
    """The first setting that was observed with another value than asked; "" where there is none."""
    seen = {(one.subject, one.name): one.value for one in derived.settings}
    wrong = [(name, value, seen.get((subject, name))) for (subject, name), value in asked.items()]
    found = next(((name, value, had) for name, value, had in wrong if had != value), None)
    if found is None:
        return ""
    name, value, had = found
    observed = "it was not observed" if had is None else f"the run had {had}"
    return f"{name} should have been {value}: {observed}"


def _other_batch(derived: Derived, own: Value | None) -> str:
    """The observed global batch where it differs from the baseline's; "" where it is the same or not known."""
    had = next((fact.value for fact in derived.facts if fact.name == GLOBAL_BATCH), None)
    if not isinstance(own, int) or not isinstance(had, int) or abs(had - own) <= SAME_BATCH_SHARE * own:
        return ""
    return f"its global batch has {had} samples, that of the baseline {own}"
