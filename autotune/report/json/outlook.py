"""The outlook as JSON: memory, payback, restart or finish, options. Unknown is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

from autotune.model.outlook import Comparison, DeviceSetup, MemoryBudget, Outlook, Payback, Promise, Restart

if TYPE_CHECKING:
    from autotune.report.json import documents as doc


def outlook_json(outlook: Outlook) -> doc.Outlook:
    """The records field by field; an option also has the time and the cost of its run."""
    memory, payback = outlook.memory, outlook.payback
    return {
        "memory": _memory(memory) if memory else None,
        "payback": _payback(payback) if payback else None,
        "promise": _promise(outlook.promise) if outlook.promise else None,
        "restart": _restart(outlook.restart) if outlook.restart else None,
        "options": _options(outlook.comparison) if outlook.comparison else None,
    }


def _memory(memory: MemoryBudget) -> doc.MemoryBudget:
    row: doc.MemoryBudget = to_builtins(memory)
    return {**row, "parts": list(row["parts"])}


def _payback(payback: Payback) -> doc.Payback:
    row: doc.Payback = to_builtins(payback)
    return {**row, "numbers": list(payback.numbers), "worth_it": payback.is_worth_it}


def _promise(promise: Promise) -> doc.Promise:
    row: doc.Promise = to_builtins(promise)
    return {**row, "numbers": list(promise.numbers)}


def _restart(restart: Restart) -> doc.Restart:
    where = restart.position
    return {
        "step": where.step if where else None,
        "total": where.total if where else None,
        "step_s": where.step_s if where else None,
        "courses": list(to_builtins(restart.courses)),
        "choice": restart.choice,
        "least_s": restart.least_s,
        "numbers": list(restart.numbers),
        "basis": restart.basis,
        "notes": list(restart.notes),
    }


def _options(comparison: Comparison) -> doc.Options:
    return {
        "steps": comparison.steps,
        "rows": [_row(setup, comparison.steps) for setup in comparison.setups],
        "assumptions": list(comparison.assumptions),
        "why_not": comparison.why_not or None,
    }


def _row(setup: DeviceSetup, steps: int) -> doc.SetupRow:
    hours = [ms * steps / 3_600_000 for ms in (setup.step.low, setup.step.high)]
    usd = [None if setup.usd_per_hour is None else each * setup.usd_per_hour for each in hours]
    row: doc.SetupRow = to_builtins(setup)
    return {**row, "run_s": [each * 3600 for each in hours], "cost_usd": usd}
