"""The line that shows how far check is."""

from __future__ import annotations

import io

import pytest

from autotune.report.check_progress import AFTER_S, RENEWED_S, CheckProgress
from autotune.report.renewed_line import WIDTH


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def shown(stream: io.StringIO, *times: float, file: str = "src/train.py") -> str:
    clock = Clock()
    with CheckProgress(stream=stream, clock=clock) as progress:
        for place, now in enumerate(times):
            clock.now = now
            progress.update(file, place, 4)
    return stream.getvalue()


def test_a_short_check_shows_nothing():
    assert shown(Terminal(), 0.1, AFTER_S - 0.1) == ""


def test_a_long_check_shows_the_file_and_how_many_are_done():
    lines = shown(Terminal(), 0.1, AFTER_S, AFTER_S + 1).split("\r")
    assert lines[1] == f"[{'#' * 6}{' ' * 18}] 1 of 4: src/train.py"
    assert lines[2] == f"[{'#' * 12}{' ' * 12}] 2 of 4: src/train.py"


def test_the_line_is_gone_in_the_end():
    *_, line, blank, end = shown(Terminal(), AFTER_S).split("\r")
    assert (blank, end) == (" " * len(line), "")
    assert line


def test_lines_follow_each_other_slowly():
    assert shown(Terminal(), AFTER_S, AFTER_S + RENEWED_S / 2).count("of 4") == 1


def test_a_shorter_line_leaves_nothing_of_a_longer_one():
    stream, clock = Terminal(), Clock()
    with CheckProgress(stream=stream, clock=clock) as progress:
        for now, file in ((AFTER_S, "a/long/name.py"), (AFTER_S + 1, "b.py")):
            clock.now = now
            progress.update(file, 0, 2)
        first, second = stream.getvalue().split("\r")[1:]
        assert len(second) == len(first)


def test_nothing_is_written_to_a_file():
    assert shown(io.StringIO(), AFTER_S, AFTER_S + 1) == ""


@pytest.mark.parametrize("file", ["x" * 200, "bad\x1b[31m\nname.py"])
def test_the_line_stays_one_line_of_the_terminal(file: str):
    line = shown(Terminal(), AFTER_S, file=file).split("\r")[1]
    assert len(line) < WIDTH
    assert "\x1b" not in line
    assert "\n" not in line
