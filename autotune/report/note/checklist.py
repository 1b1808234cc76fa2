"""What to look at once training was started again with the changes."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.finding import Recommendation
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.report import expectation
from autotune.report.gains import decisions, ready_to_apply
from autotune.report.note.blocks import Bullets, Code, Item
from autotune.report.units import size


def after_restart(report: Report) -> Bullets | None:
    """Boxes to tick; None where nothing is proposed."""
    items = tuple(_items(report))
    return Bullets(items, is_checklist=True) if items else None


def _items(report: Report) -> Iterator[Item]:
    proposed = (*ready_to_apply(report), *decisions(report))
    if not proposed or report.step is None:
        return
    if report.run.startup_s is not None and report.outlook.payback is not None:
        yield Item("It was stopped right after a save, and goes on from that save", "Restart:")
    yield from (_speed(one) for one in expectation.expectations(report))
    name = "" if report.name == "last" else f" {report.name}"
    asked = Code(f'autotune report{name} --at "LINE"')
    yield Item((asked, ", with the line of the progress bar, says that it is as expected"), "Speed:")
    yield from _memory(report)
    yield Item("The first losses continue those from before the restart", "Losses:")
    altering = [each for each in proposed if each.effect is Effect.ALTERING]
    if altering:
        yield Item(f"{_numbers(altering)}: compared with a run without it, the losses are as good", "Losses:")
    if report.evidence.lookup("run", "checkpoint.interval_steps") is not None:
        yield Item("The first save after the restart is there, and can be loaded", "Saves:")


def _speed(expected: expectation.Expectation) -> Item:
    numbers = ", ".join(map(str, expected.numbers))
    if expected.limit_ms is None:
        best = "at best " if expected.basis == "bound" else ""
        return Item(f"{best}{expected.expected} with {numbers}; no promise: {expected.why_not}", "Speed:")
    steps = f"after {expectation.STEPS} steps with {numbers}"
    return Item(f"{expected.expected} {steps}; slower than {expected.limit}: run autotune diagnose again", "Speed:")


def _memory(report: Report) -> Iterator[Item]:
    budget = report.outlook.memory
    if budget is None or budget.limit_bytes is None:
        return
    where = "of the GPU" if budget.on_device else "of the training process"
    yield Item(f"The peak {where} stays below {size(budget.limit_bytes)} (now {size(budget.peak_bytes)})", "Memory:")


def _numbers(found: list[Recommendation]) -> str:
    return ", ".join(str(each.number) for each in found)
