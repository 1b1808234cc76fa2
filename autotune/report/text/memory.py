"""The memory budget: each part with what is known of it."""

from __future__ import annotations

from autotune.model.evidence import RUN
from autotune.model.outlook import MemoryBudget
from autotune.model.report import Report
from autotune.report.text.layout import StyledLine, paragraph
from autotune.report.units import size

_BASES = {"measured": "Measured", "modelled": "Modelled", "assumed": "Assumed"}


def lines(report: Report, width: int) -> list[StyledLine]:
    """One paragraph, the parts by what they rest on, which a trace does not tell; nothing without a peak."""
    budget = report.outlook.memory
    return paragraph("Memory", _text(budget) if budget else _traced(report), width)


def _traced(report: Report) -> str:
    """What the allocator had reserved in a trace with memory; "" for all others."""
    peak, limit = (report.evidence.lookup(RUN, f"memory.{name}_bytes") for name in ("peak", "limit"))
    if not report.run.traces or not isinstance(peak, int):
        return ""
    of = f" of {size(limit)}" if isinstance(limit, int) else ""
    return f"{size(peak)}{of} on the GPU at the peak of the trace"


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
