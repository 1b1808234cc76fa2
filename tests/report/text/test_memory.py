from __future__ import annotations

from msgspec.structs import replace
from report_builders import report, run

from autotune.model.evidence import RUN, Evidence
from autotune.model.outlook import MemoryBudget, MemoryPart, Outlook
from autotune.report.text import memory

MIB = 2**20


def printed(budget: MemoryBudget | None) -> str:
    made = replace(report(run=run(), step=None), outlook=Outlook(memory=budget))
    return " ".join(" ".join(line.text for line in memory.lines(made, 80)).split())


def test_nothing_without_a_peak() -> None:
    assert printed(None) == ""


def test_every_part_stands_with_what_it_rests_on() -> None:
    parts = (
        MemoryPart("weights", 100 * MIB, "measured", ""),
        MemoryPart("gradients", 50 * MIB, "modelled", ""),
        MemoryPart("optimizer state", None, None, "what SGD keeps is not known"),
        MemoryPart("headroom", 300 * MIB, "measured", ""),
    )
    assert printed(MemoryBudget(parts, 700 * MIB, 1000 * MIB, True)) == (
        "Memory: 700 MiB of 1,000 MiB on the GPU at the peak of the window. Measured: weights 100 MiB, headroom "
        "300 MiB. Modelled: gradients 50 MiB. Unknown: optimizer state (what SGD keeps is not known)"
    )


def test_a_limit_that_is_not_known_is_left_out() -> None:
    assert printed(MemoryBudget((), 700 * MIB, None, False)) == (
        "Memory: 700 MiB in the training process at the peak of the window"
    )


def test_of_a_trace_what_the_allocator_had_reserved() -> None:
    known = Evidence({RUN: {"memory.peak_bytes": 700 * MIB, "memory.limit_bytes": 1000 * MIB}})
    told = report(run=run(traces=("t.json",)), step=None, evidence=known)
    (line,) = memory.lines(told, 80)
    assert line.text == "Memory: 700 MiB of 1,000 MiB on the GPU at the peak of the trace"
    assert memory.lines(report(run=run(traces=("t.json",)), step=None), 80) == []
    assert memory.lines(report(run=run(), step=None, evidence=known), 80) == []
