"""The note of a verification: the verdict, both sides in numbers, the losses, what it holds for."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.invocation import typed
from autotune.model.verified import Verdict, Verified
from autotune.report import next_commands
from autotune.report.note import ab_result, parts
from autotune.report.note.blocks import Block, Bullets, Code, Folded, Item, Note, Paragraph, Section
from autotune.report.text import ab_result as ab_text
from autotune.report.text import verify as text
from autotune.report.units import step_time


def note(verified: Verified) -> Note:
    """All of it."""
    return Note(
        title="Training speed: before and after, measured",
        about=parts.about(
            verified.day,
            ("Command", Code(typed(verified.command)) if verified.command else ""),
            ("Environment", verified.environment),
            ("Compared", verified.against),
            ("Instead", verified.beside),
        ),
        blocks=tuple(_blocks(verified)),
    )


def _blocks(verified: Verified) -> Iterator[Block]:
    yield Paragraph(text.verdict(verified)[0], is_verdict=True)
    yield Section("Before and after", (ab_result.before_and_after(verified),))
    changes = tuple(ab_result.change_table(verified.changes))
    if changes:
        yield Section("Changes", changes)
    details = parts.paragraphs(ab_text.lines(verified, parts.WIDE, text.advice(verified.losses)))
    yield Section("What it rests on", (*details, Paragraph(text.resumed(verified.resume), "Resume")))
    if verified.verdict is Verdict.FASTER:
        yield Section("After the restart", (_checklist(verified),))
    yield Folded("How it was measured", (*map(Paragraph, verified.notes), Paragraph(text.cost(verified), "Cost")))
    yield from parts.next_steps(next_commands.of_verified(verified))


def _checklist(verified: Verified) -> Bullets:
    after = step_time(verified.step_ms[1])
    return Bullets(
        (
            Item(f"{after} per step on the machine that was measured", "Speed:"),
            Item("The first losses continue those from before the restart", "Losses:"),
            Item("The first save is there, and can be loaded", "Saves:"),
        ),
        is_checklist=True,
    )
