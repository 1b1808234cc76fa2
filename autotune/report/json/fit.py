"""One JSON object, schema 1, described by `fit.schema.json` beside this file. An unknown value is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune import __version__
from autotune.model.fitted import CardAnswer, CardFit, Fitted
from autotune.model.outlook import ValueRange
from autotune.report import next_commands
from autotune.report.json.encode import SCHEMA, dumps
from autotune.report.json.next_commands import next_json

if TYPE_CHECKING:
    from autotune.report.json import documents as doc


def render(fitted: Fitted, colour: bool, width: int) -> str:
    """The object in one line. Keys keep the order of the schema."""
    return dumps(document(fitted))


def document(fitted: Fitted) -> doc.FitDocument:
    """The answer as plain values."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "autotune", "version": __version__},
        "command": list(fitted.command),
        "basis": fitted.basis,
        "fits": fitted.any_fits,
        "devices": fitted.num_devices,
        "sharding": fitted.sharding.value if fitted.sharding is not None else None,
        "steps": fitted.steps,
        "cards": list(map(_card, fitted.cards)),
        "why_not": fitted.why_not or None,
        "notes": list(fitted.notes),
        "seconds": fitted.seconds,
        "run": fitted.run or None,
        "next": next_json(next_commands.of_fitted(fitted)),
    }


def _card(card: CardAnswer) -> doc.FitCard:
    return {
        "card": card.name,
        "title": card.title,
        "memory_bytes": card.limit,
        "largest_micro_batch": card.largest,
        "usd_per_hour": card.usd_per_hour,
        "price_date": card.price_date or None,
        "price_where": card.price_where or None,
        "sizes": list(map(_size, card.fits)),
    }


def _size(one: CardFit) -> doc.FitSize:
    return {
        "micro_batch": one.need.samples,
        "length": one.need.length,
        "verdict": one.verdict.value,
        "low_bytes": one.need.low,
        "high_bytes": one.need.high,
        "margin_bytes": one.margin,
        "parts_bytes": dict(one.need.parts),
        "step_ms": _range(one.step_ms),
        "run_s": _range(one.run_s),
        "cost_usd": _range(one.usd),
    }


def _range(value: ValueRange | None) -> doc.FitRange | None:
    return None if value is None else {"low": value.low, "high": value.high, "basis": value.basis}
