from __future__ import annotations

import pytest

from autotune.model.report import HotLine, LineTable


def line(number, share, backward_ms=0.0, **phase_ms):
    return HotLine(
        file="train.py",
        line=number,
        end_line=number,
        function="main",
        share=share,
        phase_ms=phase_ms,
        backward_ms=backward_ms,
    )


CALL = line(95, 0.6, backward=60.0)
"""A call of backward, in which second derivatives are made: their nodes have no line."""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((CALL, line(65, 0.3, forward=30.0)), 65),
        ((CALL, line(65, 0.09, forward=9.0)), 95),
        ((CALL,), 95),
        ((line(65, 0.6, 40.0, forward=20.0), line(70, 0.3, forward=30.0)), 65),
        ((line(8, 0.6, forward=40.0, backward=20.0), line(70, 0.3, forward=30.0)), 8),
    ],
)
def test_the_line_to_look_at(lines, expected):
    assert LineTable(lines, (), 1.0).hottest.line == expected


def test_without_lines_there_is_none():
    assert LineTable((), (), 0.0).hottest is None
