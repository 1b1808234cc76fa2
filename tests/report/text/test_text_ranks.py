"""The table of ranks, the sentence on the last one, and the lines that issue collectives."""

from __future__ import annotations

from msgspec.structs import replace
from report_builders import report, run, step

from autotune.model.report import Collective, LateRank, Rank
from autotune.report.text import ranks


def rank(number: int, own_ms: float, **changes) -> Rank:
    fields = {"rank": number, "step_ms": 100.0, "own_ms": own_ms, "own_is": "whole", "phases_ms": {"other": own_ms}}
    return Rank(**(fields | changes))


def text(*rows: Rank, collectives: tuple[Collective, ...] = ()) -> str:
    whole = replace(report(run=run(), step=step(other=100.0)), ranks=rows, collectives=collectives)
    return "\n".join(line.text for line in ranks.lines(whole, 78))


def call(ms: float, wait_ms: float | None = 2.0) -> Collective:
    return Collective("all_reduce", "/home/user/project/train.py", 40, "report", 39.5, ms, wait_ms)


def test_one_process_has_no_table():
    assert text() == ""


def test_the_last_rank_is_named_with_its_phase_and_line():
    late = LateRank(40.0, "other", "check (train.py:31)")
    table = text(rank(0, 50.0, wait_ms=45.0), rank(1, 90.0, wait_ms=5.0, late=late))
    assert table.splitlines() == [
        "Ranks, per step  own work    waits",
        "  rank 0          50.0 ms  45.0 ms",
        "  rank 1          90.0 ms  5.00 ms",
        "  Rank 1 works 40.0 ms longer than the median rank, most of it in other, at",
        "  check (train.py:31).",
    ]


def test_jitter_is_not_told():
    assert "longer" not in text(rank(0, 90.0), rank(1, 98.0, late=LateRank(8.0, "other", "")))
    assert "longer" in text(rank(0, 90.0), rank(1, 100.0, late=LateRank(10.0, "other", "")))


def test_what_is_not_known_has_no_column_and_is_no_zero():
    table = text(rank(0, 50.0, batch_tokens=2048.0), rank(1, 60.0))
    assert table.splitlines()[0] == "Ranks, per step  own work  tokens of a batch"
    assert table.splitlines()[1].endswith("2,048") and table.splitlines()[2].endswith(" -")


def test_where_waits_are_not_measured_the_head_says_what_the_work_is():
    table = text(rank(0, 50.0, own_is="before_communication"), rank(1, 60.0, own_is="before_communication"))
    assert "own work before communication" in table


def test_of_many_ranks_the_busiest_and_the_idlest_are_shown():
    table = text(*(rank(number, 10.0 + number) for number in range(12)))
    shown = [line.split()[1] for line in table.splitlines() if line.startswith("  rank")]
    assert shown == ["0", "5", "6", "7", "8", "9", "10", "11"] and "4 more between them" in table


def test_lines_that_cost_little_are_left_out():
    table = text(rank(0, 90.0), rank(1, 90.0), collectives=(call(12.0), call(9.0, None), call(2.9)))
    assert "12.0 ms: 39.5 calls of all_reduce per step, report (train.py:40); 2.00 ms of" in table
    assert "9.00 ms" in table and table.count("waits for later ranks") == 1 and "2.90 ms" not in table
