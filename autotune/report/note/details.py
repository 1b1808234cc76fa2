"""Where the time and the memory go: each section with its table, those that have one with a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from autotune.model.outlook import MemoryBudget, MemoryPart
from autotune.model.report import PHASES, HotLine, HotModule, Rank, Report, Step
from autotune.outlet import clean
from autotune.report.gains import saves_nothing
from autotune.report.labels import PHASES as PHASE_NAMES
from autotune.report.labels import path, phases
from autotune.report.note import window_pictures
from autotune.report.note.blocks import (
    Block,
    Bullets,
    Code,
    Dot,
    Figure,
    Item,
    Key,
    Label,
    Paragraph,
    Picture,
    Rect,
    Section,
    Segment,
    Shape,
    Table,
    Text,
)
from autotune.report.note.parts import WIDE
from autotune.report.text import breakdown, device, hot_lines, ranks, startup
from autotune.report.text.layout import StyledLine
from autotune.report.units import percent, size, step_time

MOST_LINES, MOST_MODULES = 8, 6
LINES_FROM = 0.02
"""Of the step."""


def sections(report: Report, step: Step) -> Iterator[Section]:
    """Those of which something is known."""
    head = f"Where the {step_time(step.mean_ms)} per step go ({breakdown.reader_rate(report, step)})"
    yield Section(head, (_phases(report, step), *_unknown_phases(step)))
    yield from window_pictures.timeline(report)
    yield from _lines(report, step)
    yield from _device(report)
    yield from _ranks(report)
    yield from _startup(report)
    yield from _memory(report)
    yield from window_pictures.lengths(report)
    yield from window_pictures.workers(report)


def _phases(report: Report, step: Step) -> Table:
    known = sorted((p for p in PHASES if step.breakdown_ms.get(p)), key=lambda p: -(step.breakdown_ms[p] or 0.0))
    rows = []
    for phase in known:
        ms = step.breakdown_ms[phase] or 0.0
        acting = [
            str(each.number)
            for each in report.recommendations
            if any(phase in phases(finding.rule) for finding in each.findings) and not saves_nothing(each)
        ]
        rows.append((PHASE_NAMES[phase], percent(ms / step.mean_ms), step_time(ms), ", ".join(acting) or "-"))
    return Table(("phase", "share", "per step", "changes"), tuple(rows), (1, 2))


def _unknown_phases(step: Step) -> Iterator[Paragraph]:
    text = breakdown.phases_without_time(step)
    if text:
        yield Paragraph(f"{text[0].upper()}{text[1:]}.")


def _lines(report: Report, step: Step) -> Iterator[Section]:
    table = step.lines
    lines = [line for line in (table.lines if table is not None else ()) if line.share >= LINES_FROM][:MOST_LINES]
    if table is None or not lines:
        return
    rows = tuple(_line_row(line, step, report) for line in lines)
    blocks: list[Block] = [
        Figure(
            _share_bars("Lines that cost most", [(_name(line, report), line.share) for line in lines]),
            Table(("share", "line", "called from, operations"), rows, (0,)),
        )
    ]
    modules = [module for module in table.modules if module.share >= LINES_FROM][:MOST_MODULES]
    if modules:
        blocks.append(Table(("share", "module", "type"), tuple(map(_module_row, modules)), (0,)))
    is_traced = table.ops is not None
    more = ", with the backward pass of their operations" if is_traced else ""
    yield Section(f"Lines that cost most{more}", tuple(blocks))


def _name(line: HotLine, report: Report) -> str:
    return f"{path(line.file, report.run.folder)}:{line.line}"


def _line_row(line: HotLine, step: Step, report: Report) -> tuple[Text, ...]:
    function = f" {line.function}" if line.function not in ("", "<module>") else ""
    place = (Code(_name(line, report)), function)
    return percent(line.share), place, ", ".join(hot_lines.details(line, step, report)) or "-"


def _module_row(module: HotModule) -> tuple[Text, ...]:
    return percent(module.share), Code(module.name), module.type


def _share_bars(title: str, rows: Sequence[tuple[str, float]]) -> Picture:
    """A bar for each row, of the step."""
    shapes: list[Shape] = []
    for index, (name, share) in enumerate(rows):
        top = index * 40
        shapes.append(Label(0, top + 14, f"{percent(share)}  {clean(name)}"))
        shapes.append(Rect(0, top + 20, 100 * min(1.0, share), 12, "hot", name))
    first = f"{clean(rows[0][0])} takes {percent(rows[0][1])} of the step." if rows else ""
    return Picture(title, f"A bar for each, as long as its share of the step. {first}", 40 * len(rows), tuple(shapes))


def _bullets(lines: Sequence[StyledLine]) -> Bullets:
    return Bullets(tuple(Item(line.text.strip()) for line in lines))


def _device(report: Report) -> Iterator[Section]:
    if report.device is not None:
        yield Section(device.heading(report.device), (_bullets(device.body(report, report.device, WIDE)),))


def _startup(report: Report) -> Iterator[Section]:
    lines = startup.lines(report, WIDE)
    if lines:
        yield Section(lines[0].text, (_bullets(lines[1:]),))


def _ranks(report: Report) -> Iterator[Section]:
    if not report.ranks:
        return
    shown = ranks.shown_ranks(report.ranks)
    columns = ranks.columns(shown)
    cells = zip(*(texts for _, texts in columns), strict=True)
    rows = tuple((ranks.name(rank, report.ranks), *texts) for rank, texts in zip(shown, cells, strict=True))
    table = Table(("", *(head for head, _ in columns)), rows, tuple(range(1, len(columns) + 1)))
    hidden = len(report.ranks) - len(shown)
    more = (Paragraph(f"{hidden} more lie between them."),) if hidden else ()
    told = tuple(Paragraph(line.text.strip()) for line in ranks.sentences(report, WIDE))
    yield Section("Ranks, per step", (Figure(_rank_dots(shown), table), *more, *told))


def _rank_dots(shown: Sequence[Rank]) -> Picture:
    """A line for each phase that ranks differ in, a dot for each rank."""
    names = [name for name in PHASES if any(rank.phases_ms.get(name) for rank in shown)]
    most = max((rank.phases_ms.get(name, 0.0) for rank in shown for name in names), default=0.0) or 1.0
    shapes: list[Shape] = []
    for index, name in enumerate(names):
        top = index * 44
        values = [(rank, rank.phases_ms[name]) for rank in shown if rank.phases_ms.get(name) is not None]
        least, largest = min(ms for _, ms in values), max(ms for _, ms in values)
        shapes.append(Label(0, top + 14, f"{PHASE_NAMES[name]}: {step_time(least)} to {step_time(largest)}"))
        shapes.append(Segment(2, top + 28, 98, top + 28, "axis"))
        shapes += [Dot(2 + 96 * ms / most, top + 28, name, f"rank {rank.rank}: {step_time(ms)}") for rank, ms in values]
    return Picture(
        "Ranks in each phase",
        "A dot for each rank on a line for each phase: the further to the right, the longer it takes of a step.",
        44 * len(names),
        tuple(shapes),
    )


def _memory(report: Report) -> Iterator[Section]:
    budget = report.outlook.memory
    if budget is None:
        return
    rows = tuple(
        (part.name, "unknown" if part.num_bytes is None else size(part.num_bytes), part.basis or "-", part.how)
        for part in budget.parts
    )
    table = Table(("part", "size", "basis", "how it is known"), rows, (1,))
    where = "on the GPU" if budget.on_device else "in the training process"
    limit = f" of {size(budget.limit_bytes)}" if budget.limit_bytes is not None else ""
    head = f"Memory: {size(budget.peak_bytes)}{limit} {where} at the peak of the window"
    known = [part for part in budget.parts if part.num_bytes and part.name != "headroom"]
    yield Section(head, (Figure(_stack(budget, known), table) if known else table,))


def _stack(budget: MemoryBudget, known: Sequence[MemoryPart]) -> Picture:
    """The known parts beside one another up to the peak, and the limit as a line."""
    total = sum(part.num_bytes or 0 for part in known)
    whole = max(budget.limit_bytes or 0, budget.peak_bytes, total)
    starts = list(accumulate((part.num_bytes or 0 for part in known), initial=0))
    shapes: list[Shape] = [Rect(0, 8, 100, 30, "free", "not used")]
    for index, (part, start) in enumerate(zip(known, starts, strict=False)):
        width = 98 * (part.num_bytes or 0) / whole
        hint = f"{part.name} {size(part.num_bytes or 0)}"
        shapes.append(Rect(98 * start / whole, 8, width, 30, f"part{index % 6}", hint))
    limit = ""
    if budget.limit_bytes is not None:
        at = 98 * budget.limit_bytes / whole
        shapes += [Segment(at, 2, at, 44, "limit"), Label(at, 58, f"limit {size(budget.limit_bytes)}", "end")]
        limit = f" The limit is {size(budget.limit_bytes)}."
    parts = ", ".join(f"{part.name} {size(part.num_bytes or 0)}" for part in known)
    return Picture(
        "Memory at the peak",
        f"The parts of the memory beside one another: {parts}.{limit}",
        66 if budget.limit_bytes is not None else 46,
        tuple(shapes),
        tuple(Key(f"part{index % 6}", part.name) for index, part in enumerate(known)),
    )
