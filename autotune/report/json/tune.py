"""One JSON object, schema 1, described by `tune.schema.json` beside this file. An unknown value is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune import __version__
from autotune.model.evidence import Value
from autotune.model.patch import PatchChange
from autotune.model.tuned import SearchTrial, SkippedSetting, Space, Tuned, UntriedFinding
from autotune.model.verified import Verified
from autotune.report import next_commands
from autotune.report.json.encode import SCHEMA, dumps
from autotune.report.json.next_commands import next_json

if TYPE_CHECKING:
    from autotune.report.json import documents as doc


def render(tuned: Tuned, colour: bool, width: int) -> str:
    """The object in one line. Keys keep the order of the schema."""
    return dumps(document(tuned))


def document(tuned: Tuned) -> doc.TuneDocument:
    """The search as plain values. `best` holds every setting that was searched: the user's own where nothing won."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "autotune", "version": __version__},
        "best": _best(tuned),
        "changes": dict(tuned.best),
        "verified": _proven_gain(tuned.verified) if tuned.best and tuned.verified else None,
        "measured": _measurement(tuned.verified) if tuned.verified else None,
        "trials": [_trial(trial, tuned.space.changes(trial.candidate)) for trial in tuned.trials],
        "space": _space(tuned.space),
        "left_out": list(map(_skipped_setting, tuned.space.left_out)),
        "dropped": list(map(_skipped_setting, tuned.dropped)),
        "by_hand": list(map(_manual_change, tuned.by_hand)),
        "beyond": list(map(_untried_finding, tuned.beyond)),
        "diagnosed": tuned.diagnosed or None,
        "stopped": tuned.stopped,
        "spent_s": tuned.spent_s,
        "probes_s": tuned.probes_s,
        "patch": tuned.patch or None,
        "notes": list(tuned.notes),
        "side_effects": list(tuned.side_effects),
        "next": next_json(next_commands.of_tuned(tuned)),
    }


def _best(tuned: Tuned) -> dict[str, Value]:
    """The settings of the trial that won: without those of the user's own that do not go with its changes."""
    space = tuned.space
    won = (trial.candidate for trial in tuned.trials if space.changes(trial.candidate) == tuned.best)
    return space.settings(next(won, space.current))


def _proven_gain(verified: Verified) -> doc.ProvenGain:
    found = verified.estimate
    losses = verified.losses.sameness
    return {"speedup": found.speedup, "low": found.low, "high": found.high, "losses": losses}


def _measurement(verified: Verified) -> doc.Proof:
    """What was measured of the best candidate, whether it won or not."""
    found = verified.estimate
    before_ms, after_ms = verified.step_ms
    return {
        "verdict": verified.verdict,
        "why": verified.why or None,
        "speedup": found.speedup,
        "low": found.low,
        "high": found.high,
        "step_ms": {"before": before_ms, "after": after_ms},
        "losses": verified.losses.sameness,
        "losses_why": verified.losses.why or None,
        "memory": {"before_bytes": verified.memory.before, "after_bytes": verified.memory.after},
        "starts": len(verified.schedule.order),
        "changes": {change.setting: change.new for change in verified.changes},
        "notes": list(verified.notes),
    }


def _trial(trial: SearchTrial, changes: dict[str, Value]) -> doc.TrialResult:
    return {
        "number": trial.number,
        "changes": changes,
        "outcome": trial.outcome,
        "samples_per_s": trial.samples_per_s,
        "step_ms": trial.step_ms,
        "memory_bytes": trial.memory_bytes,
        "forecast": trial.forecast,
        "wall_s": trial.wall_s,
        "error": trial.error or None,
    }


def _untried_finding(found: UntriedFinding) -> doc.BeyondSearch:
    gain = found.gain
    return {"rules": list(found.rules), "message": found.message, "speedup": gain.speedup, "basis": gain.basis}


def _space(space: Space) -> list[doc.AxisPoints]:
    return [
        {"name": axis.name, "points": [dict(point) for point in axis.points], "current": axis.current}
        for axis in space.axes
    ]


def _manual_change(change: PatchChange) -> doc.ByHandChange:
    return {"setting": change.setting, "new": change.new, "how": change.by_hand, "gain": change.gain}


def _skipped_setting(one: SkippedSetting) -> doc.Reason:
    return {"setting": one.setting, "why": one.why}
