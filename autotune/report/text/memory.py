"""The memory budget: each part with what is known of it."""

from __future__ import annotations

from autotune.model.outlook import MemoryBudget
from autotune.model.report import Report
from autotune.report.text.layout import StyledLine, paragraph
from autotune.report.units import size

_BASES = {"measured": "Measured", "modelled": "Modelled", "assumed": "Assumed"}


def lines(report: Report, width: int) -> list[StyledLine]:
    """One paragraph, the parts by what they rest on; nothing without a peak."""
    budget = report.outlook.memory
    return paragraph("Memory", _text(budget), width) if budget else []


def _text(budget: MemoryBudget) -> str:
    of = f" of {size(budget.limit_bytes)}" if budget.limit_bytes is not None else ""
    where = "on the GPU" if budget.on_device else "in the training process"
    groups = [f"{size(budget.peak_bytes)}{of} {where} at the peak of the window"]
    for basis, word in _BASES.items():
        known = [each for each in budget.parts if each.basis == basis and each.num_bytes is not None]
        named = ", ".join(f"{each.name} {size(each.num_bytes or 0)}" for each in known)
        groups += [f"{word}: {named}"] if named else []
    unknown = [f"{each.name} ({each.how})" for each in budget.parts if each.num_bytes is None]
    groups += [f"Unknown: {', '.join(unknown)}"] if unknown else []
    return ". ".join(groups)
