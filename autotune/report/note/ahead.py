"""What was asked for beside the report: restart or finish a running job, and other devices."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.report import Report
from autotune.report.note import parts
from autotune.report.note.blocks import Block, Paragraph, Section, Table
from autotune.report.text import device_options, promise, restart_advice
from autotune.report.units import duration


def sections(report: Report) -> Iterator[Section]:
    """Of what was asked for."""
    if report.outlook.promise is not None:
        yield Section("Is it as fast as expected?", (Paragraph(promise.sentence(report.outlook.promise)),))
    yield from _restart(report)
    yield from _devices(report)


def _restart(report: Report) -> Iterator[Section]:
    found = report.outlook.restart
    if found is None:
        return
    if found.position is None:
        lines = restart_advice.restart_lines(report, parts.WIDE)
        yield Section("Restart or finish", (Paragraph(parts.sentences(lines)),))
        return
    rows = tuple(
        (
            restart_advice.WAYS[course.way],
            duration(course.seconds),
            restart_advice.details(course, report.price_per_hour),
        )
        for course in found.courses
    )
    blocks: list[Block] = [Paragraph(restart_advice.advice(found)), Table(("way on", "time left", ""), rows, (1,))]
    blocks += [Paragraph(note, "Note") for note in found.notes]
    yield Section(restart_advice.heading(found, found.position), tuple(blocks))


def _devices(report: Report) -> Iterator[Section]:
    found = report.outlook.comparison
    if found is None:
        return
    if found.why_not:
        lines = device_options.lines(report, parts.WIDE)
        yield Section("Other devices", (Paragraph(parts.sentences(lines)),))
        return
    rows = tuple((*device_options.row(one), device_options.run_of_setup(one, found)) for one in found.setups)
    table = Table((*device_options.HEAD, "the whole run"), rows, (1, 2, 3))
    assumed = Paragraph(f"{'; '.join(found.assumptions)}.", "Assumed")
    yield Section(device_options.heading(found), (table, assumed))
