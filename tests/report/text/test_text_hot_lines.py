from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from report_builders import evidence, report, run, step

from autotune.model.report import Caller, Frame, HotLine, HotModule, LineTable, Report, Step
from autotune.report.text import hot_lines


def line(number: int, share: float, **fields: Any) -> HotLine:
    given = {
        "file": "/p/src/model.py",
        "end_line": number,
        "function": "forward",
        "phase_ms": {"forward": 1.0},
        **fields,
    }
    return HotLine(line=number, share=share, **given)


def shown(
    *lines: HotLine, ops: float | None = 3.0, modules: tuple[HotModule, ...] = (), made: Step | None = None
) -> str:
    filled = replace(
        made or step(forward=60.0, other=40.0),
        lines=LineTable(lines=lines, modules=modules, known_share=1.0, ops=ops, op_us=2.0 if ops else None),
    )
    told: Report = report(run=run(), step=filled, evidence=evidence({"run": {"machine.cpus_per_rank": 8}}))
    return "\n".join(each.text for each in hot_lines.lines(told, filled, 100))


def test_the_lines_that_cost_most_with_what_the_trace_says() -> None:
    text = shown(line(58, 0.62, runs=12.0, ops=36.0, op_us=40.0, operations=(("aten::mm", 0.8),)), line(9, 0.04))
    assert "Lines that cost most, with the backward pass of their operations" in text
    assert "62 %  model.py:58 (forward)" in text
    assert "12x, 36 ops of 40 us, mm" in text
    assert "model.py:9" not in text


def test_where_its_function_is_called() -> None:
    callers = (Caller("/p/src/model.py", 76, 0.8), Caller("/p/src/train.py", 9, 0.2))
    assert "from :76" in shown(line(58, 0.62, callers=callers))
    assert "from train.py:9" in shown(line(58, 0.62, callers=callers[1:]))


def test_a_line_in_which_the_gpu_waits() -> None:
    made = step(forward=60.0, other=40.0)
    assert "GPU idle 90 %" in shown(line(58, 0.5, device_ms=5.0), made=made)
    assert "GPU" not in shown(line(58, 0.5, device_ms=26.0), line(60, 0.3), made=made)


def test_what_has_no_room_is_left_out_and_not_cut_in_the_middle() -> None:
    parts = ["GPU idle 90 %", "6,094x", "18,282 ops of 36 us", "mm"]
    assert hot_lines._fitting(parts, 40) == "GPU idle 90 %, 6,094x, mm"
    assert hot_lines._fitting(parts, 45) == "GPU idle 90 %, 6,094x, 18,282 ops of 36 us"


def test_without_a_trace_the_backward_pass_is_not_charged() -> None:
    text = shown(line(58, 0.62), ops=None)
    assert text.splitlines()[1] == "Lines that cost most"


def test_a_long_name_keeps_its_line_number() -> None:
    text = shown(line(58, 0.62, file=f"/p/{'a_long_name_' * 5}.py"))
    assert ".py:58" in text


def test_in_a_narrow_report_the_details_are_shortened_and_not_the_place() -> None:
    text = shown(line(58, 0.62, callee="transformers." + "PreTrainedTokenizerBase" * 4, torch_share=0.1))
    assert "62 %  model.py:58 (forward)" in text
    assert max(map(len, text.splitlines())) <= 100


def test_modules_and_busy_cpus() -> None:
    frame = Frame("/p/src/model.py", 58, "forward", 0.3, 1.0)
    made = replace(step(forward=60.0, other=40.0), other=(frame,))
    text = shown(
        line(58, 0.62), modules=(HotModule("layers.*", "Block", 0.5), HotModule("head", "Linear", 0.01)), made=made
    )
    assert "1.0 of 8 CPUs" in text
    assert "Modules: layers.* 50 %" in text
    assert "head" not in text


@pytest.mark.parametrize("lines", [(), (line(58, 0.049),)])
def test_nothing_without_a_line_that_costs_much(lines: tuple[HotLine, ...]) -> None:
    assert shown(*lines) == ""
