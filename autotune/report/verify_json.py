"""One JSON object, schema 1, described by `verify.schema.json` beside this file. An unknown value is null."""

from __future__ import annotations

from autotune import __version__
from autotune.model.verified import Verified
from autotune.report.json_out import SCHEMA, Json, dumps


def render(verified: Verified, colour: bool, width: int) -> str:
    """The object in one line. Keys keep the order of the schema."""
    return dumps(document(verified))


def document(verified: Verified) -> Json:
    """The verification as plain values."""
    found, predicted = verified.estimate, verified.predicted
    before_ms, after_ms = verified.step_ms
    return {
        "schema": SCHEMA,
        "tool": {"name": "autotune", "version": __version__},
        "against": verified.against,
        "changes": [
            {"setting": each.setting, "old": each.old, "new": each.new, "effect": each.effect.value}
            for each in verified.changes
        ],
        "verdict": verified.verdict.value,
        "why": verified.why or None,
        "speedup": found.speedup,
        "low": found.low,
        "high": found.high,
        "spread": found.spread,
        "per_sample": verified.is_per_sample,
        "step_ms": {"before": before_ms, "after": after_ms},
        "losses": {
            "result": verified.losses.sameness.value,
            "steps": verified.losses.steps,
            "why": verified.losses.why,
        },
        "memory": {
            "of": verified.memory.of,
            "before_bytes": verified.memory.before,
            "after_bytes": verified.memory.after,
        },
        "resume": "not_tried",
        "predicted": {"speedup": predicted.speedup, "low": predicted.low, "high": predicted.high}
        if predicted is not None
        else None,
        "starts": len(verified.schedule.order),
        "steps": verified.schedule.steps,
        "warmup": verified.schedule.warmup,
        "seconds": verified.seconds,
        "notes": list(verified.notes),
    }
