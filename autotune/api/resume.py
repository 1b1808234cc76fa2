"""One save of the changed script and one start that goes on from it, by the script's own trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune import collect
from autotune.api import outcome
from autotune.collect import artefacts, leftovers
from autotune.model.recording import Recording
from autotune.model.rule import Effect
from autotune.model.verified import AFTER, Resume, Resumed, Sameness, Start
from autotune.verify.losses import compare
from autotune.verify.scratch import start_folder
from autotune.verify.starts import Runner

SAVE_AT, STEPS_AFTER = 2, 3
"""The optimizer step after which is saved, early as examples are short, and the steps that the same start goes on."""

SAVING = collect.Request(warmup=SAVE_AT, steps=STEPS_AFTER, what_ifs=False, save_at=SAVE_AT)
GOING_ON = collect.Request(warmup=1, steps=2, what_ifs=False)
SAVED, RESUMED, CHECKPOINT = "saved", "resumed", "scratch-checkpoint"
"""In a run folder: the notes of the probe, and the folder of the save."""

TRAINERS = {"hf_args": "the Trainer of transformers", "lightning": "the Trainer of Lightning"}
"""By what a Recording says of frameworks: those whose save and resume are known."""

_BY_HAND = "save and resume once by hand before a long run"


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether there is something to try: `why_not` is "" then, and `seconds` what it costs."""

    why_not: str
    seconds: float = 0.0


def trial(recording: Recording, start: Start) -> Trial:
    """What a rehearsal of the changed script says about trying it."""
    if not TRAINERS.keys() & recording.frameworks.keys():
        return Trial(f"no trainer was seen whose resume is known (transformers, Lightning): {_BY_HAND}")
    if start.warmup + start.steps <= SAVE_AT + 1:
        return Trial(f"the script makes only {start.warmup + start.steps} steps: {_BY_HAND}")
    return Trial("", 2 * (start.fixed_s + (SAVE_AT + STEPS_AFTER) * start.step_ms / 1000))


def tried(runner: Runner) -> Resume:
    """Save the changed script once, and let another start go on from there."""
    with start_folder(runner.root) as first, start_folder(runner.root) as second:
        saved = runner.run_in(first, AFTER, SAVING)[0]
        _list(first)
        if why := _failure(runner, saved):
            return Resume(Resumed.FAILED, f"the start that was to save failed: {why}")
        checkpoint = _note(first / SAVED)
        if not checkpoint:
            return Resume(Resumed.NOT_TRIED, f"its trainer never came to a save: {_BY_HAND}")
        resumed = runner.run_in(second, AFTER, replace(GOING_ON, resume_from=checkpoint))[0]
        if why := _failure(runner, resumed):
            return Resume(Resumed.FAILED, f"the start that was to go on from the save failed: {why}")
        return _told(_note(second / RESUMED), saved, resumed)


def _told(first_step: str, saved: collect.Collected, resumed: collect.Collected) -> Resume:
    if first_step != str(SAVE_AT + 1):
        went_on = f"at step {first_step}" if first_step else "with no step"
        return Resume(Resumed.FAILED, f"saved after step {SAVE_AT}, the start from there went on {went_on}")
    losses = [list(one.recordings[0].losses) if one.recordings else [] for one in (saved, resumed)]
    done = f"saved after step {SAVE_AT}, and a new process went on with step {first_step}"
    return Resume(Resumed.OK, f"{done}; {_continued(losses[0][SAVE_AT:], losses[1])}")


def _continued(kept: Sequence[float | None], new: Sequence[float | None]) -> str:
    """How the losses after a resume compare with those of the start that saved and did not stop."""
    found = compare([kept, kept], [new, new], Effect.EQUIVALENT)
    if found.sameness in (Sameness.IDENTICAL, Sameness.CLOSE):
        return "its losses are those of the run that did not stop"
    if not found.steps or kept[0] is None or new[0] is None:
        return "no losses were seen to compare"
    went_on = f"{kept[0]:.6g} in the run that did not stop"
    return f"its first loss is {new[0]:.6g}, and {went_on}: other data or other random draws"


def _failure(runner: Runner, collected: collect.Collected) -> str:
    """Why a start is no result; "" for a good one."""
    run = outcome.summarise(collected, runner.sides.words[AFTER], runner.python, "", False, runner.cwd)
    if collected.bugs:
        return f"a bug of ours: {collected.bugs[0].splitlines()[0]}"
    if run.error:
        last = collected.said.rpartition("\n")[2]
        return runner.told(f"{run.error} ({last})" if last else run.error)
    return "" if run.outcome in ("completed", "ended_early") else run.outcome.replace("_", " ")


def _note(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _list(folder: Path) -> None:
    """List the save as scratch: should this process be killed now, the next measurement deletes it."""
    place = folder / CHECKPOINT
    artefacts.write_text(folder / leftovers.SCRATCH_LIST, f"{folder.stat().st_dev} {place}\n")
