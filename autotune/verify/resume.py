"""One save of the changed script and one run that resumes from it, by the script's own trainer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from autotune import collect
from autotune.catalogue import frameworks
from autotune.collect import artefacts, stale_runs
from autotune.diagnose import outcome
from autotune.errors import AutotuneError, InternalError
from autotune.model.recording import Recording
from autotune.model.rule import Effect
from autotune.model.verified import AFTER, BEFORE, LossVerdict, Resume, Resumed, RunResult
from autotune.outlet import print_stderr
from autotune.report.units import size
from autotune.verify.losses import compare
from autotune.verify.runs import SideRunner
from autotune.verify.scratch import run_folder

SAVE_AT, STEPS_AFTER = 2, 3
"""The optimizer step after which the script saves (early: examples are short), and the steps of that run after it."""

SAVING = collect.Request(warmup=SAVE_AT, steps=STEPS_AFTER, what_ifs=False, save_at=SAVE_AT)
GOING_ON = collect.Request(warmup=1, steps=2, what_ifs=False)
SAVED, RESUMED, CHECKPOINT = "saved", "resumed", "scratch-checkpoint"
"""In a run folder: the notes of the probe, and the folder of the save."""

SPARE = 1.2
"""Free space that the disk must have, as a multiple of the bytes of the save."""

DISK_BYTES_PER_S = 100e6
"""Assumed speed of a slow disk for a save and a load."""

ADAM_BYTES = 8
"""Per parameter: the state of Adam, for an optimizer whose state could not be read."""

_BY_HAND = "save and resume once by hand before a long run"


class ResumePlan(Struct, frozen=True):
    """Whether a resume can be tested: `why_not` is "" if so, and `seconds` is the time that it takes."""

    why_not: str
    seconds: float = 0.0


def plan_resume(recording: Recording, start: RunResult, free_bytes: int | None) -> ResumePlan:
    """Plans it from a rehearsal of the changed script, on a disk with `free_bytes` (None: unknown)."""
    known = frameworks.resumable()
    if not known.keys() & recording.frameworks.keys():
        return ResumePlan(f"autotune can test the resume of {' and '.join(known.values())} only: {_BY_HAND}")
    if start.warmup + start.steps <= SAVE_AT + 1:
        return ResumePlan(f"the script runs only {start.warmup + start.steps} steps: {_BY_HAND}")
    needed = _state_bytes(recording)
    if free_bytes is not None and free_bytes < SPARE * needed:
        return ResumePlan(f"a save takes about {size(needed)}, and the disk has {size(free_bytes)} free: {_BY_HAND}")
    start_s = start.fixed_s + (SAVE_AT + STEPS_AFTER) * start.step_ms / 1000
    return ResumePlan("", 2 * (start_s + needed / DISK_BYTES_PER_S))


def _state_bytes(recording: Recording) -> int:
    """What a save holds: the parameters, and the state of the optimizers."""
    optimizers = 0
    for one in recording.optimizers:
        state = one.get("state_bytes")
        optimizers += sum(state.values()) if state else ADAM_BYTES * one["num_params"]
    return sum(one["param_bytes"] for one in recording.models) + optimizers


def test_resume(
    runner: SideRunner, seconds: float, deadline: float, clock: Callable[[], float] = time.monotonic
) -> Resume:
    """Save the changed script once, and resume in another run, by `deadline` (of `clock`) or within `seconds`.

    If that fails and time is left, the same with the unchanged script shows whether the change is to blame.
    """
    found = _attempt(runner, AFTER, max(seconds, deadline - clock()))
    if found.result is not Resumed.FAILED:
        return found
    left_s = deadline - clock()
    other = _attempt(runner, BEFORE, left_s) if left_s >= seconds else Resume(Resumed.NOT_TRIED, "")
    return replace(found, why=f"{found.why}; {_UNCHANGED[other.result]}")


_UNCHANGED = {
    Resumed.OK: "with the unchanged script it works",
    Resumed.FAILED: "with the unchanged script it fails too",
    Resumed.NOT_TRIED: "the unchanged script was not tried",
}


def _attempt(runner: SideRunner, side: str, limit_s: float) -> Resume:
    """An error or a Ctrl-C ends only the attempt: the measurement before it remains."""
    try:
        return _saved_and_resumed(runner, side, limit_s)
    except KeyboardInterrupt:
        return Resume(Resumed.NOT_TRIED, f"you interrupted it: {_BY_HAND}")
    except (AutotuneError, InternalError, OSError) as error:
        print_stderr(str(error))
        return Resume(Resumed.NOT_TRIED, f"it ended with {type(error).__name__}: {_BY_HAND}")


def _saved_and_resumed(runner: SideRunner, side: str, limit_s: float) -> Resume:
    """Each of the two runs gets half of `limit_s` to reach its first step, and as much for the others."""
    half_s = limit_s / 2
    saving = replace(SAVING, startup_limit_s=half_s, time_limit_s=half_s)
    with run_folder(runner.root) as first, run_folder(runner.root) as second:
        saved = runner.run_in(first, side, saving)[0]
        _list(first)
        if bad := _ended(runner, side, saved, "to save"):
            return bad
        step, _, checkpoint = _note(first / SAVED).partition(" ")
        if not checkpoint:
            return Resume(Resumed.NOT_TRIED, f"its trainer reached no save: {_BY_HAND}")
        going_on = replace(GOING_ON, resume_from=checkpoint, startup_limit_s=half_s, time_limit_s=half_s)
        resumed = runner.run_in(second, side, going_on)[0]
        if bad := _ended(runner, side, resumed, "to go on from the save"):
            return bad
        return _told(step, _note(second / RESUMED), saved, resumed)


def _told(step: str, begun: str, saved: collect.Collected, resumed: collect.Collected) -> Resume:
    """`step` is the step of the save, `begun` that from which the other run continued ("": it made no step)."""
    if begun != step:
        went_on = f"at step {int(begun) + 1}" if begun else "without a step"
        return Resume(Resumed.FAILED, f"saved after step {step}, the resumed process continued {went_on}")
    known = [one.recordings[0] for one in (saved, resumed) if one.recordings]
    # Several optimizers share the steps: then nobody knows at which loss the save was.
    losses = [one.losses for one in known] if all(len(one.optimizers) <= 1 for one in known) else []
    said = _continued(losses[0][SAVE_AT:], losses[1]) if len(losses) == 2 else _NO_LOSSES
    return Resume(Resumed.OK, f"saved after step {step}, and a new process resumed at step {int(begun) + 1}; {said}")


_NO_LOSSES = "no losses were seen to compare"


def _continued(kept: Sequence[float | None], new: Sequence[float | None]) -> str:
    """How the losses after a resume compare with those of the run that saved and went on."""
    found = compare([kept, kept], [new, new], Effect.EQUIVALENT)
    if found.sameness in (LossVerdict.IDENTICAL, LossVerdict.CLOSE):
        return "its losses equal those of the uninterrupted run"
    if not found.steps or kept[0] is None or new[0] is None:
        return _NO_LOSSES
    went_on = f"{kept[0]:.6g} in the uninterrupted run"
    return f"its first loss is {new[0]:.6g}, and {went_on}: other data or other random draws"


def _ended(runner: SideRunner, side: str, collected: collect.Collected, what: str) -> Resume | None:
    """Why a run, which was to do `what`, failed; None if it did not."""
    if collected.ended_by in ("startup_limit", "time_limit"):
        return Resume(Resumed.NOT_TRIED, f"the budget ended before the run {what} did: {_BY_HAND}")
    why = _failure(runner, side, collected)
    return Resume(Resumed.FAILED, f"the run {what} failed: {why}") if why else None


def _failure(runner: SideRunner, side: str, collected: collect.Collected) -> str:
    """Why a run failed; "" if it did not. The script's own message may quote data: it goes to stderr only."""
    run = outcome.summarise(collected, runner.sides.words[side], runner.python, "", False, runner.cwd)
    if collected.bugs:
        return f"internal error: {collected.bugs[0].splitlines()[0]}"
    if run.error:
        print_stderr(runner.with_real_paths(collected.said))
        return runner.with_real_paths(run.error)
    return "" if run.outcome in ("completed", "ended_early") else run.outcome.replace("_", " ")


def _note(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _list(folder: Path) -> None:
    """List the save as scratch: should this process be killed now, the next measurement deletes it."""
    place = folder / CHECKPOINT
    artefacts.write_text(folder / stale_runs.SCRATCH_LIST, f"{folder.stat().st_dev} {place}\n")
