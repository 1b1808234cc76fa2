"""The note of a diagnosis: verdict, before and after, changes, where the time goes, what was right, checklist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from autotune.invocation import typed
from autotune.model.finding import Recommendation
from autotune.model.report import Report, Step
from autotune.outlet import clean
from autotune.report import advice, efficiency, expectation, machine, next_commands, progress_bar, stages
from autotune.report.gains import speedup
from autotune.report.note import ahead, checklist, details, parts, step_bars
from autotune.report.note.blocks import (
    Block,
    Bullets,
    Code,
    Figure,
    Folded,
    Item,
    Listing,
    Note,
    Paragraph,
    Section,
    Table,
    Text,
)
from autotune.report.text import coverage, failure, footer, restart_advice, verdict
from autotune.report.units import duration, money, step_time

LONGEST_TITLE = 60

WIDEST_DIFF, LONGEST_DIFF = 200, 120
"""Columns and lines of a diff: a notebook may be one line of megabytes."""


def note(report: Report) -> Note:
    """All of it; what is not known is left out."""
    return Note(
        title=f"Training speed: {_subject(report)}",
        about=parts.about(
            parts.day(PurePath(report.run.folder).name),
            ("Command", Code(typed(report.run.command)) if report.run.command else ""),
            ("Environment", machine.line(report)),
            ("Run", Code(PurePath(report.run.folder).name)),
        ),
        blocks=tuple(_blocks(report)),
    )


def _subject(report: Report) -> str:
    """The script, else the command, else the traces."""
    script = next((PurePath(word).name for word in report.run.command if word.endswith(".py")), "")
    traces = [PurePath(name).name for name in report.run.traces]
    return script or typed(report.run.command)[:LONGEST_TITLE] or ", ".join(traces[:2]) or "a recording"


def _blocks(report: Report) -> Iterator[Block]:
    failed = parts.sentences(failure.lines(report, parts.WIDE))
    if failed:
        yield Paragraph(failed, is_verdict=True)
    lead = parts.sentences(verdict.lines(report, parts.WIDE))
    if lead:
        yield Paragraph(lead, is_verdict=True)
    if measured := ", ".join(efficiency.parts(report)):
        yield Paragraph(measured, "Throughput")
    yield from _before_and_after(report)
    yield from ahead.sections(report)
    yield from _changes(report)
    if report.step is not None:
        yield from details.sections(report, report.step)
    yield from _right(report)
    boxes = checklist.after_restart(report)
    if boxes is not None:
        yield Section("After the restart", (boxes,))
    yield Folded("How it was measured", parts.paragraphs(footer.lines(report, parts.WIDE)))
    yield from parts.next_steps(next_commands.of_report(report))


def _before_and_after(report: Report) -> Iterator[Block]:
    step = report.step
    found = stages.stages(report)
    if step is None or not found:
        return
    expected = expectation.expectations(report)
    expects = tuple(Item(expectation.sentence(one), f"{expectation.head(one)}:") for one in expected)
    remarks = tuple(Paragraph(text) for text in stages.notes(found, report))
    yield Section(
        "Before and after",
        (
            Figure(step_bars.picture(report, step), _stage_table(found, report, step)),
            *remarks,
            *((Bullets(expects),) if expects else ()),
            *parts.paragraphs(restart_advice.payback_lines(report, parts.WIDE)),
        ),
    )


def _stage_table(found: Sequence[stages.Stage], report: Report, step: Step) -> Table:
    price = report.price_per_hour
    of_bar = {one.numbers: one for one in expectation.expectations(report)}
    columns = ("", "time", *(("cost",) if price is not None else ()), "step", "progress bar", "speedup")
    now = {phase: ms for phase, ms in step.breakdown_ms.items() if ms}
    rows: list[tuple[Text, ...]] = []
    for stage in found:
        bar = of_bar.get(tuple(each.number for each in stage.made))
        at_best = "at best " if stage.gain is not None and stage.gain.basis == "bound" else ""
        shown = f"{at_best}{bar.expected}" if bar is not None else ""
        if stage.gain is None and progress_bar.iteration_ms(step) > 0 and not report.run.traces:
            shown = progress_bar.written(progress_bar.iteration_ms(step), report)
        left = sum(step_bars.phases_after(stage, now, step).values()) if stage.gain else step.mean_ms
        rows.append(
            (
                stages.title(stage, report),
                f"{at_best}{duration(stage.seconds)}",
                *((f"{at_best}{money(stage.seconds / 3600 * price)}",) if price is not None else ()),
                f"{at_best}{step_time(left)}",
                shown or "-",
                speedup(stage.gain, report.step) if stage.gain else "-",
            )
        )
    return Table(columns, tuple(rows), tuple(range(1, len(columns))))


def _changes(report: Report) -> Iterator[Block]:
    for heading, group in advice.groups(report):
        yield Section(heading, tuple(_one(each, report) for each in group))
    if report.diff:
        yield Section("The changes as a diff", (Paragraph(_OF_DIFF), Listing(_shortened(report.diff), "diff")))


def _shortened(diff: str) -> str:
    """The diff with the ends of wide lines cut off, and of many lines the first."""
    lines = diff.splitlines()
    kept = [line if len(line) <= WIDEST_DIFF else f"{line[:WIDEST_DIFF]}..." for line in lines[:LONGEST_DIFF]]
    more = [f"... {len(lines) - LONGEST_DIFF:,} more lines"] if len(lines) > LONGEST_DIFF else []
    return "".join(f"{line}\n" for line in (*kept, *more))


_OF_DIFF = ("What ", Code("autotune apply"), " writes by default; lines around the changed ones are left out.")


def _one(recommendation: Recommendation, report: Report) -> Section:
    rows = advice.rows(recommendation, report)
    items = tuple(Item(Code(row.text) if row.is_to_copy else clean(row.text), f"{row.label}:") for row in rows)
    saved = advice.saved(recommendation, report)
    blocks: tuple[Block, ...] = (Bullets(items),)
    return Section(advice.title(recommendation), (Paragraph(saved), *blocks) if saved else blocks, level=3)


def _right(report: Report) -> Iterator[Block]:
    known = report.coverage
    if known.right:
        yield Section("Already right", (parts.listed(known.right),))
    if known.useless:
        yield Section("Would not help", (parts.listed(known.useless),))
    if known.not_looked_at:
        yield Folded("Not looked at", (parts.listed(coverage.not_looked_at(report)),))
