"""The note of a search: the winner and its proof, every trial, what was not searched, what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.invocation import typed
from autotune.model.tuned import Outcome, SearchTrial, SkippedSetting, Tuned
from autotune.report import next_commands
from autotune.report.gains import format_gain
from autotune.report.labels import assignments
from autotune.report.note import ab_result, parts
from autotune.report.note.blocks import (
    Block,
    Bullets,
    Code,
    Dot,
    Figure,
    Folded,
    Item,
    Key,
    Label,
    Note,
    Paragraph,
    Picture,
    Section,
    Segment,
    Shape,
    Table,
    Text,
)
from autotune.report.text import ab_result as ab_text
from autotune.report.text import tune as text
from autotune.report.units import duration

MOST_TRIALS = 100
"""In the picture and its table: a page of 300 has 170 kB, and nobody reads them."""


def note(tuned: Tuned) -> Note:
    """All of it; what was not done is left out."""
    noun = "trial" if len(tuned.trials) == 1 else "trials"
    return Note(
        title="Training speed: a search of settings",
        about=parts.about(
            tuned.day,
            ("Command", Code(typed(tuned.command)) if tuned.command else ""),
            ("Environment", tuned.environment),
            ("Searched", f"{len(tuned.trials)} {noun} in {duration(tuned.spent_s)}"),
        ),
        blocks=tuple(_blocks(tuned)),
    )


def _blocks(tuned: Tuned) -> Iterator[Block]:
    yield Paragraph(text.headline(tuned)[0], is_verdict=True)
    verified = tuned.verified
    if verified is not None:
        proof = parts.paragraphs(ab_text.lines(verified, parts.WIDE))
        changes = tuple(ab_result.change_table(verified.changes))
        figure = ab_result.before_and_after(verified)
        yield Section("The best against the baseline, in an A/B confirmation", (figure, *changes, *proof))
    if tuned.trials:
        base = text.base_speed(tuned)
        shown = _shown(tuned.trials, base)
        hidden = len(tuned.trials) - len(shown)
        more = f"{hidden:,} more were slower, or failed: `--format json` has all."
        figure = Figure(_trials(tuned, shown, base), _table(tuned, shown, base))
        yield Section("Trials", (figure, *((Paragraph(more),) if hidden else ())))
    if tuned.by_hand:
        yield Section("To change by hand; not confirmed", tuple(ab_result.change_table(tuned.by_hand)))
    if tuned.beyond:
        rows = tuple((" ".join(one.rules), one.message, format_gain(one.gain)) for one in tuned.beyond)
        head = "Found by the diagnosis and not tried; gains are relative to the baseline"
        yield Section(head, (Table(("rules", "seen", "gain"), rows),))
    yield from _left_out("Left unchanged", tuned.dropped)
    yield from _left_out("Not searched", tuned.space.left_out)
    notes = dict.fromkeys((*(verified.notes if verified is not None else ()), *tuned.side_effects))
    told = [*map(Paragraph, notes), *([Paragraph(tuned.stopped, "Stopped")] if tuned.stopped else [])]
    yield Folded("How it was measured", (*told, Paragraph(text.cost(tuned), "Cost")))
    yield from parts.next_steps(next_commands.of_tuned(tuned))


def _shown(trials: Sequence[SearchTrial], base: float | None) -> Sequence[SearchTrial]:
    """The baseline and the fastest, in their order."""
    order = sorted(range(1, len(trials)), key=lambda place: -(_speedup(trials[place], base) or 0.0))
    return [trials[place] for place in (0, *sorted(order[: MOST_TRIALS - 1]))]


def _table(tuned: Tuned, shown: Sequence[SearchTrial], base: float | None) -> Table:
    rows: tuple[tuple[Text, ...], ...] = tuple(
        (
            str(trial.number),
            *text.row(trial, base),
            Code(assignments(tuned.space.changes(trial.candidate))),
            f"{text.OUTCOMES[trial.outcome]}: {trial.error}" if trial.outcome is not Outcome.COMPLETED else "completed",
        )
        for trial in shown
    )
    return Table(("trial", *text.HEADS, "settings", "outcome"), rows, (0, 1, 2, 3, 4))


def _trials(tuned: Tuned, shown: Sequence[SearchTrial], base: float | None) -> Picture:
    """A row for each trial: a ring where it was expected, a dot where it was measured; the proof with its interval."""
    measured = [(trial, _speedup(trial, base)) for trial in shown]
    verified = tuned.verified
    ends = [verified.estimate.low, verified.estimate.high] if verified is not None else []
    forecasts = [trial.forecast for trial in shown if trial.forecast is not None]
    most = 1.05 * max(1.0, *ends, *forecasts, *(speed for _, speed in measured if speed is not None))
    shapes: list[Shape] = []
    for index, (trial, speed) in enumerate(measured):
        top = index * 40
        told = f"{speed:.2f}x" if speed is not None else text.OUTCOMES[trial.outcome] or "not known"
        shapes += [
            _baseline(top, most),
            Label(0, top + 14, f"{trial.number}: {told}, {assignments(tuned.space.changes(trial.candidate))}"),
            Segment(0, top + 28, 100, top + 28, "axis"),
        ]
        if trial.forecast is not None:
            shapes.append(Dot(100 * trial.forecast / most, top + 28, "predicted", f"expected {trial.forecast:.2f}x", 7))
        if speed is not None:
            shapes.append(Dot(100 * speed / most, top + 28, "measured", f"trial {trial.number}: {speed:.2f}x"))
    height = 40 * len(measured)
    if verified is not None:
        found = verified.estimate
        shapes += [
            _baseline(height, most),
            Label(0, height + 14, f"A/B confirmation: {found.speedup:.2f}x ({found.low:.2f} to {found.high:.2f})"),
            Segment(100 * found.low / most, height + 28, 100 * found.high / most, height + 28, "proof"),
            Dot(100 * found.speedup / most, height + 28, "proof", f"{found.speedup:.2f}x"),
        ]
        height += 40
    keys = [Key("measured", "measured"), Key("limit", "1x, the baseline")]
    if forecasts:
        keys.insert(1, Key("predicted", "expected"))
    if verified is not None:
        keys.append(Key("proof", "A/B confirmation with its 95 % interval"))
    return Picture(
        "Trials and the confirmation",
        "A row for each trial: the further to the right its dot, the faster it was than the baseline.",
        height,
        tuple(shapes),
        tuple(keys),
    )


def _baseline(top: float, most: float) -> Segment:
    """The mark at 1x in one row, below its words."""
    return Segment(100 / most, top + 18, 100 / most, top + 38, "limit")


def _speedup(trial: SearchTrial, base: float | None) -> float | None:
    return trial.samples_per_s / base if trial.samples_per_s and base else None


def _left_out(head: str, left: Sequence[SkippedSetting]) -> Iterator[Folded]:
    """Settings by the reason that they share; nothing without one."""
    by_reason: dict[str, list[str]] = {}
    for one in left:
        by_reason.setdefault(one.why, []).append(one.setting)
    if by_reason:
        items = tuple(Item(why, f"{', '.join(names)}:") for why, names in by_reason.items())
        yield Folded(head, (Bullets(items),))
