"""An A/B measurement in a note: before and after in numbers, and the interval of the speedup as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from autotune.model.patch import PatchChange
from autotune.model.verified import Verified
from autotune.report.note.blocks import Code, Dot, Figure, Label, Picture, Segment, Shape, Table
from autotune.report.units import literal, size, step_time


class Interval(Struct, frozen=True):
    """A speedup with its ends, and what it is of; of a bound only the upper end is told."""

    name: str
    speedup: float
    low: float
    high: float
    kind: str
    is_bound: bool = False

    @property
    def text(self) -> str:
        """ "1.69x (1.63 to 1.76)", or "at most 2.87x" of a bound."""
        if self.is_bound:
            return f"at most {self.high:.2f}x"
        return f"{self.speedup:.2f}x ({self.low:.2f} to {self.high:.2f})"


def before_and_after(verified: Verified) -> Figure:
    """The step and the memory of both sides, and the speedup beside what was predicted."""
    found = verified.estimate
    rows: list[tuple[str, ...]] = [("step, median of the runs", *map(step_time, verified.step_ms), _speedup(verified))]
    memory = verified.memory
    if memory.before is not None and memory.after is not None:
        change = f"{memory.after / memory.before - 1:+.0%}" if memory.before else "-"
        rows.append(("peak memory", size(memory.before), size(memory.after), change))
    intervals = [Interval("measured", found.speedup, found.low, found.high, "measured")]
    gain = verified.predicted
    if gain is not None:
        is_bound = gain.basis == "bound"
        intervals.append(Interval("predicted", gain.speedup, gain.low, gain.high, "predicted", is_bound))
    return Figure(interval_picture(intervals, "The speedup and its interval"), _table(rows))


def _table(rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(("", "before", "after", "change"), tuple(rows), (1, 2, 3))


def _speedup(verified: Verified) -> str:
    found = verified.estimate
    return f"{found.speedup:.2f}x ({found.low:.2f} to {found.high:.2f}, 95 %)"


def interval_picture(intervals: Sequence[Interval], title: str) -> Picture:
    """A line from end to end and a dot for each, with today's speed at 1x as a mark across."""
    ends = [1.0, *(end for one in intervals for end in (one.low, one.high))]
    least, most = min(ends), max(ends)
    span = (most - least) or 1.0

    def at(value: float) -> float:
        return 4 + 92 * (value - least) / span

    shapes: list[Shape] = []
    for index, one in enumerate(intervals):
        top = index * 40
        shapes += [
            Segment(at(1.0), top + 18, at(1.0), top + 38, "limit"),  # in pieces: none goes through a word
            Label(0, top + 14, f"{one.name}: {one.text}"),
            Segment(at(one.low), top + 28, at(one.high), top + 28, one.kind),
            Dot(at(one.speedup), top + 28, one.kind, f"{one.name} {one.speedup:.2f}x"),
        ]
    shapes.append(Label(at(1.0), 40 * len(intervals) + 14, "1x, as it is", _anchor(at(1.0))))
    told = "; ".join(f"{one.name} {one.text}" for one in intervals)
    return Picture(title, f"Speedups: {told}.", 40 * len(intervals) + 22, tuple(shapes))


def _anchor(x: float) -> Literal["start", "middle", "end"]:
    return "start" if x < 20 else "end" if x > 80 else "middle"


def change_table(changes: Sequence[PatchChange]) -> Iterator[Table]:
    """A row for each change; nothing without one."""
    if changes:
        rows = tuple(
            (Code(one.setting), literal(one.old, ""), literal(one.new, ""), one.effect.value, one.by_hand or "-")
            for one in changes
        )
        yield Table(("setting", "before", "after", "effect", "by hand"), rows)
