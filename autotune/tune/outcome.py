"""How a trial ended, from what its start brought."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.collect import Collected
from autotune.model.derived import Derived
from autotune.model.evidence import Value
from autotune.model.recording import Recording
from autotune.model.tuned import Key, Outcome, RanOut
from autotune.model.verified import Start
from autotune.report.units import step_time

_ERROR = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit))(?::|$)")
"""How the last line of a traceback begins."""

GLOBAL_BATCH = "run.global_batch"
SAME_BATCH_SHARE = 0.01
"""So much may the global batch of a trial differ from the user's own, and still be taken for the same."""


@dataclass(frozen=True, slots=True)
class End:
    """How a trial ended; `error` and `ran_out` as in a Trial."""

    outcome: Outcome
    error: str = ""
    ran_out: RanOut | None = None


def ended(
    collected: Collected,
    start: Start | None,
    derived: Derived | None,
    asked: Mapping[Key, Value],
    global_batch: Value | None = None,
    not_comparable: str = "",
) -> End:
    """The outcome, and the script's own last words or what was observed instead of what was `asked`.

    `global_batch` is what has to stay as it is, in samples; None where it may change, or nothing says what it is.
    `not_comparable` says why its pace is none that the user's own could be compared with, "" where it is.
    """
    first = collected.recordings[0] if collected.recordings else None
    ran_out = _ran_out(collected, first)
    if ran_out is not None:
        return End(Outcome.OUT_OF_MEMORY, _last_words(collected, first), ran_out)
    if collected.bugs:
        return End(Outcome.FAILED, f"a bug of ours: {collected.bugs[0].splitlines()[0]}")
    if _has_failed(collected, first):
        return End(Outcome.FAILED, _last_words(collected, first))
    if start is None or derived is None or first is None or first.window is None:
        return _unmeasured(collected)
    if other := _other(derived, asked) or _other_batch(derived, global_batch) or not_comparable:
        return End(Outcome.FAILED, other)
    if first.window.ended_by == "time_limit":
        return End(Outcome.PRUNED, f"{step_time(start.step_ms)} a step after {start.steps}: far too slow to win")
    return End(Outcome.COMPLETED)


def _ran_out(collected: Collected, first: Recording | None) -> RanOut | None:
    """Whose memory ran out; None where none did. Of a device torch has an error of its own, and names CUDA in others;
    the kernel kills only for the host's."""
    if first is not None and first.outcome == "out_of_memory":
        error = first.error or {"type": "", "message": ""}
        is_devices = error["type"] == "OutOfMemoryError" or "cuda" in error["message"].lower()
        return RanOut.DEVICE if is_devices else RanOut.HOST
    was_killed = collected.sampled is not None and collected.sampled.was_killed_for_memory
    return RanOut.HOST if was_killed else None


def _has_failed(collected: Collected, first: Recording | None) -> bool:
    """Whether the script ended by itself, and not well."""
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
    """Its error's type and last frame. The message may quote data, so nothing keeps it, but a memory error's, which
    torch words."""
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
    """What was observed instead of what was asked; "" when the run had all of it."""
    seen = {(one.subject, one.name): one.value for one in derived.settings}
    wrong = [(name, value, seen.get((subject, name))) for (subject, name), value in asked.items()]
    found = next(((name, value, had) for name, value, had in wrong if had != value), None)
    if found is None:
        return ""
    name, value, had = found
    observed = "that was not observed" if had is None else f"the run had {had}"
    return f"asked for {name} = {value}, and {observed}"


def _other_batch(derived: Derived, own: Value | None) -> str:
    """The global batch that was observed instead of the user's `own`; "" when it is the same or unknown."""
    had = next((fact.value for fact in derived.facts if fact.name == GLOBAL_BATCH), None)
    if not isinstance(own, int) or not isinstance(had, int) or abs(had - own) <= SAME_BATCH_SHARE * own:
        return ""
    return f"its optimizer steps are of {had} samples, and your own of {own}"
