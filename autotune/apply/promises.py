"""Promises of a run that a restarted job kept or broke, for the history that calibrates later predictions.

Most progress lines are of the job from before the changes, and teach nothing of them. A line counts only if `apply`
wrote the changes, they are in the files still, and the job has begun since.
"""

from __future__ import annotations

from pathlib import Path

from autotune import state
from autotune.apply.applied_patches import last_written_by, written_by
from autotune.diagnose.promise import promise_of
from autotune.errors import UsageError
from autotune.history import predictions
from autotune.model.finding import Recommendation
from autotune.model.outlook import ProgressLine, PromiseResult
from autotune.model.report import Report
from autotune.patch.journal import ChangeName
from autotune.report.expectation import STEPS

COUNTED: tuple[PromiseResult, ...] = ("kept", "broken", "as_before")
"""A job with the changes that is as slow as before breaks the promise, too."""


def record(report: Report, at: ProgressLine, now: float) -> bool:
    """Add what `at` says of the changes of the run that are in the files, as of `now` (seconds since the epoch).

    Whether it was added: nothing is where the run is not one of this user's, or the line may be of another job. Raises
    OSError or UsageError where the history cannot be written.
    """
    folder = Path(report.run.folder)
    if len(folder.parents) < 3:
        return False
    root = folder.parents[2]
    if not state.is_own_run(folder, state.registered_runs(root)):
        return False
    written_s = last_written_by(root, folder.name)
    numbers = _numbers_in_files(report, root, folder.name)
    judged = promise_of(numbers, report, at)
    if written_s is None or judged is None or not _has_begun_since(at, now - written_s):
        return False
    promise, expected = judged
    if promise.result not in COUNTED or not promise.shown_ms:
        return False
    predicted = tuple(expected.now_ms / ms for ms in (expected.expected_ms, expected.high_ms, expected.low_ms))
    speedup, low, high = predicted
    measured, is_kept = expected.now_ms / promise.shown_ms, promise.result == "kept"
    predictions.append_promise(root, folder.name, numbers, (speedup, low, high), measured, is_kept)
    return True


def _numbers_in_files(report: Report, root: Path, run: str) -> tuple[int, ...]:
    """The recommendations whose changes are all in the files; empty where a recommendation was written in part."""
    written = set(written_by(root, run))
    proposed = {each.number: _changes(each) for each in report.recommendations}
    begun = {number: changes for number, changes in proposed.items() if changes & written}
    is_whole = all(changes <= written for changes in begun.values())
    return tuple(begun) if is_whole and written <= set().union(*begun.values()) else ()


def _changes(recommendation: Recommendation) -> set[ChangeName]:
    return {(change.setting, found.subject) for found in recommendation.findings for change in found.changes}


def _has_begun_since(at: ProgressLine, seconds: float) -> bool:
    """Whether the steps of the line took less time than has passed, and are enough for a mean.

    A job that goes on from a save has made fewer: then it is not known, and does not count.
    """
    return at.step is not None and at.step >= STEPS and at.step_s is not None and at.step * at.step_s < seconds


def why_not_written(error: OSError | UsageError) -> str:
    """What to tell the user: the answer itself stands."""
    reason = error.strerror if isinstance(error, OSError) else error.what
    return f"{predictions.FILE} could not be written ({reason}): this promise will not calibrate later predictions"
