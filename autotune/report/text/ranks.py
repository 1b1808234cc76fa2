"""Ranks beside one another: a row each, where the last one loses its time, and the lines that issue collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.model.report import Collective, Rank, Report
from autotune.outlet import clean
from autotune.report.labels import PHASES, path
from autotune.report.text.layout import StyledLine, pad, wrap
from autotune.report.units import step_time

MOST_ROWS = 8
"""Of more ranks those with the most work of their own are shown, and the one with the least."""

SHOWN_FROM = 0.03
"""Of the step: a rank that is less late is not told of, nor is a line with less time in collectives."""

LEAST_LATE = 0.1
"""Of the late rank's own work, likewise: DD006's limits."""

_LINES = 3
_Cell = Callable[[Rank], float | None]


def lines(report: Report, width: int) -> list[StyledLine]:
    """The table, then a sentence on the last rank, and one on each line that issues collectives."""
    if not report.ranks:
        return []
    shown = shown_ranks(report.ranks)
    hidden = len(report.ranks) - len(shown)
    return [
        *_table(shown),
        *([StyledLine(f"  {hidden} more between them")] if hidden else []),
        *sentences(report, width),
    ]


def sentences(report: Report, width: int) -> list[StyledLine]:
    """Where the last rank loses its time, and the lines that issue collectives."""
    return [
        *_late(report.ranks, width),
        *(line for each in _worth(report) for line in wrap(_call(each, report), width, first="  ", rest="    ")),
    ]


def shown_ranks(ranks: Sequence[Rank]) -> list[Rank]:
    if len(ranks) <= MOST_ROWS:
        return list(ranks)
    by_work = sorted(ranks, key=lambda rank: -rank.own_ms)
    return sorted([*by_work[: MOST_ROWS - 1], by_work[-1]], key=lambda rank: rank.rank)


def _table(ranks: Sequence[Rank]) -> list[StyledLine]:
    told = columns(ranks)
    titles = ["Ranks, per step", *(f"  {name(rank, ranks)}" for rank in ranks)]
    shown = [[text.rjust(max(map(len, [head, *texts]))) for text in [head, *texts]] for head, texts in told]
    width = max(map(len, titles))
    rows = ["  ".join([pad(title, width), *texts]) for title, *texts in zip(titles, *shown, strict=True)]
    return [StyledLine(row, "" if index else "heading") for index, row in enumerate(rows)]


def name(rank: Rank, ranks: Sequence[Rank]) -> str:
    """ "rank 3", "rank 3 (node2)" where there are several hosts."""
    is_several = len({each.host for each in ranks}) > 1
    return clean(f"rank {rank.rank}{f' ({rank.host})' if is_several and rank.host else ''}")


def columns(ranks: Sequence[Rank]) -> list[tuple[str, list[str]]]:
    """What is known of any of them: a head, and a cell for each."""
    is_whole = all(rank.own_is == "whole" for rank in ranks)
    known: list[tuple[str, _Cell, Callable[[float], str]]] = [
        ("own work" if is_whole else "own work before communication", lambda rank: rank.own_ms, step_time),
        ("waits", lambda rank: rank.wait_ms, step_time),
        ("exposed averaging", lambda rank: rank.averaging_ms, step_time),
        ("collectives", lambda rank: rank.collective_ms, step_time),
        ("tokens of a batch", lambda rank: rank.batch_tokens, lambda number: f"{number:,.0f}"),
    ]
    told = [column for column in known if any(column[1](rank) for rank in ranks)]
    return [(head, [_words(cell(rank), words) for rank in ranks]) for head, cell, words in told]


def _words(value: float | None, words: Callable[[float], str]) -> str:
    return "-" if value is None else words(value)


def _late(ranks: Sequence[Rank], width: int) -> list[StyledLine]:
    late = next((rank for rank in ranks if rank.late), None)
    if late is None or late.late is None:
        return []
    if late.late.ms < max(SHOWN_FROM * late.step_ms, LEAST_LATE * late.own_ms):
        return []
    where = f", at {late.late.line}" if late.late.line else ""
    who = name(late, ranks).replace("rank", "Rank", 1)
    text = (
        f"{who} works {step_time(late.late.ms)} longer than the median rank, most of it in "
        f"{PHASES[late.late.phase]}{where}."
    )
    return wrap(clean(text), width, first="  ", rest="  ")


def _worth(report: Report) -> list[Collective]:
    step_ms = report.step.mean_ms if report.step else 0.0
    return [each for each in report.collectives if each.ms >= SHOWN_FROM * step_ms][:_LINES]


def _call(row: Collective, report: Report) -> str:
    """ "12 ms: 40 calls of all_reduce per step, report (train.py:40); 2 ms of it waits for later ranks"."""
    calls = f"{row.calls:.3g} {'call' if row.calls == 1 else 'calls'}"
    place = f"{row.function} ({path(row.file, report.run.folder)}:{row.line})"
    waits = "" if row.wait_ms is None else f"; {step_time(row.wait_ms)} of it waits for later ranks"
    return clean(f"{step_time(row.ms)}: {calls} of {row.name} per step, {place}{waits}")
