"""The progress display: what the line says, how often plain lines come, and that rich stays out."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import suppress

import pytest

from autotune.collect.progress import Status
from autotune.report.live import PLAIN_INTERVAL_S, ProgressDisplay, line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def at(phase: str = "starting", elapsed_s: float = 0.0, steps: int = 0, where: str = "") -> Status:
    return Status(elapsed_s, steps, phase, where)


@pytest.mark.parametrize(
    ("status", "step_ms", "expected"),
    [
        (at("starting", 12.0, where="a.py:3 f"), None, "waiting for the first step: 12 s, in a.py:3 f"),
        (at("starting", 200.0), None, "waiting for the first step: 3 min 20 s"),
        (at("measuring", 3.0, 7, "a.py:3 f"), 168.0, "step 7, 168 ms"),
        (at("measuring", 3.0, 7), None, "step 7"),
        (at("warm-up", 3.0, 2), 5.0, "step 2, 5.00 ms (warm-up)"),
        (at("what-if", 9.0, 35, "a.py:3 f"), 168.0, "what-if probes after step 35, in a.py:3 f"),
    ],
)
def test_line(status: Status, step_ms: float | None, expected: str) -> None:
    assert line(status, step_ms) == expected


def test_plain_lines_come_at_most_every_ten_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    with ProgressDisplay(stream=stream, clock=clock) as live:
        for second in range(21):
            clock.now = 100.0 + second
            live.update(at("starting", float(second), where="a.py:1 f"))
    assert PLAIN_INTERVAL_S == 10.0
    assert stream.getvalue().splitlines() == [
        f"autotune: waiting for the first step: {seconds}, in a.py:1 f" for seconds in ("under 0.1 s", "10 s", "20 s")
    ]


def test_the_step_time_is_that_of_the_steps_since_the_last_update() -> None:
    stream, clock = io.StringIO(), Clock()
    live = ProgressDisplay(stream=stream, clock=clock)
    for now, steps in ((100.0, 1), (101.0, 3), (101.5, 3), (111.0, 4)):
        clock.now = now
        live.update(at("measuring", now - 100.0, steps))
    assert stream.getvalue().splitlines() == ["autotune: step 1", "autotune: step 4, 10.00 s"]


def test_the_wait_for_the_first_step_is_no_step_time() -> None:
    stream, clock = io.StringIO(), Clock()
    live = ProgressDisplay(stream=stream, clock=clock)
    for now, steps in ((100.0, 0), (160.0, 1)):
        clock.now = now
        live.update(at("warm-up" if steps else "starting", now - 100.0, steps))
    assert stream.getvalue().splitlines()[-1] == "autotune: step 1 (warm-up)"


def test_quiet_writes_nothing() -> None:
    stream = Terminal()
    with ProgressDisplay(quiet=True, stream=stream) as live:
        live.update(at("starting", 1.0))
        live.update(at("measuring", 1.0, 1))
    assert stream.getvalue() == ""


def test_a_terminal_gets_one_line_that_goes_away() -> None:
    stream = Terminal()
    live = ProgressDisplay(stream=stream)
    live.update(at("starting", 1.0, where="a.py:1 f"))
    live.update(at("measuring", 1.0, 7))
    live.close()
    live.close()
    assert "step 7" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")


def test_on_a_terminal_that_the_script_writes_to_each_line_begins_at_the_left_edge() -> None:
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with open(child, "w") as stream:
        stream.write("the script's bar")
        live = ProgressDisplay(stream=stream, is_shared=True)
        live.update(at("measuring", 1.0, 7))
        stream.write("another bar")
        live.close()
    written = b""
    with suppress(OSError):  # the end of what a terminal's other side has written
        while part := os.read(parent, 4096):
            written += part
    os.close(parent)
    edge = " " * 40 + "\r"  # from any column but the first one it goes on in the next line
    assert written.decode() == f"the script's bar{edge}autotune: step 7\r\nanother bar{edge}"


@pytest.mark.parametrize("frame", ["a\nb.py:1 f", "\x1b[31mred\x1b[0m.py:1 f"])
def test_a_frame_stays_in_its_line(frame: str) -> None:
    stream = io.StringIO()
    ProgressDisplay(stream=stream).update(at("starting", 1.0, where=frame))
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_rich_is_loaded_only_for_a_terminal() -> None:
    code = (
        "import sys, io; from autotune.report import render; from autotune.report.live import ProgressDisplay;"
        "from autotune.collect.progress import Status;"
        "ProgressDisplay(stream=io.StringIO()).update(Status()); assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
