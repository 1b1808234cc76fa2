"""One JSON object, schema 1, described by `verify.schema.json` beside this file. An unknown value is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune import __version__
from autotune.model.finding import Gain
from autotune.model.patch import PatchChange
from autotune.model.verified import LossComparison, Memory, Verified
from autotune.report import next_commands
from autotune.report.json.encode import SCHEMA, dumps
from autotune.report.json.next_commands import next_json

if TYPE_CHECKING:
    from autotune.report.json import documents as doc


def render(verified: Verified, colour: bool, width: int) -> str:
    """The object in one line. Keys keep the order of the schema."""
    return dumps(document(verified))


def document(verified: Verified) -> doc.VerifyDocument:
    """The verification as plain values."""
    found = verified.estimate
    before_ms, after_ms = verified.step_ms
    return {
        "schema": SCHEMA,
        "tool": {"name": "autotune", "version": __version__},
        "against": verified.against,
        "beside": verified.beside or None,
        "changes": list(map(_change, verified.changes)),
        "verdict": verified.verdict,
        "why": verified.why or None,
        "speedup": found.speedup,
        "low": found.low,
        "high": found.high,
        "spread": found.spread,
        "undisturbed": False,
        "clock": verified.clock,
        "worth": verified.worth or None,
        "per_sample": verified.is_per_sample,
        "step_ms": {"before": before_ms, "after": after_ms},
        "losses": _losses(verified.losses),
        "memory": _memory(verified.memory),
        "resume": {"result": verified.resume.result, "why": verified.resume.why},
        "predicted": _predicted_gain(verified.predicted),
        "starts": len(verified.schedule.order),
        "turn_s": verified.schedule.turns.turn_s if verified.schedule.turns else None,
        "steps": verified.schedule.steps,
        "warmup": verified.schedule.warmup,
        "seconds": verified.seconds,
        "notes": list(verified.notes),
        "next": next_json(next_commands.of_verified(verified)),
    }


def _change(change: PatchChange) -> doc.Change:
    return {"setting": change.setting, "old": change.old, "new": change.new, "effect": change.effect}


def _losses(losses: LossComparison) -> doc.LossesResult:
    result = losses.sameness
    return {"result": result, "steps": losses.steps, "why": losses.why, "more_steps": losses.more_steps}


def _memory(memory: Memory) -> doc.SidesMemory:
    return {"of": memory.of, "before_bytes": memory.before, "after_bytes": memory.after}


def _predicted_gain(gain: Gain | None) -> doc.PredictedGain | None:
    if gain is None:
        return None
    return {"speedup": gain.speedup, "low": gain.low, "high": gain.high, "basis": gain.basis}
