"""Lines of the watch on a terminal of 40 columns, on which the script draws."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

COLUMNS = 40
SAY = "from autotune.probe.watch.terminal import write_line; import sys; "
TEXT = "autotune: step 50"
HAND_DRAWN = "step 12/60 loss 0.51"


def screen(script: str) -> list[str]:
    """The lines of a terminal once `script` has written to it."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    done = subprocess.Popen([sys.executable, "-c", SAY + script], stdout=child, stderr=child, stdin=child)
    os.close(child)
    written = b""
    while piece := _read(parent):
        written += piece
    assert done.wait() == 0
    os.close(parent)
    return drawn(written.decode())


def _read(parent: int) -> bytes:
    try:
        return os.read(parent, 65536)
    except OSError:  # the other end is closed
        return b""


def drawn(written: str) -> list[str]:
    """As terminals that wrap draw it: a full line stays until one more character comes."""
    lines, at, column = [[" "] * COLUMNS], 0, 0
    for one in written:
        if one == "\r":
            column = 0
            continue
        if one == "\n" or column == COLUMNS:
            at, column = at + 1, column if one == "\n" else 0
            lines += [[" "] * COLUMNS] * (at == len(lines))
        if one != "\n":
            lines[at][column] = one
            column += 1
    return ["".join(line).rstrip() for line in lines]


@pytest.mark.parametrize("before", ["s", HAND_DRAWN, "." * (COLUMNS - 1), "." * COLUMNS])
def test_what_stands_in_the_line_of_the_cursor_stays_and_the_line_begins_below(before):
    assert screen(f"sys.stdout.write('\\r{before}'); sys.stdout.flush(); write_line('{TEXT}')") == [before, TEXT, ""]


def test_a_line_at_the_left_edge_has_no_empty_line_above():
    assert screen(f"write_line('{TEXT}'); write_line('{TEXT}')") == [TEXT, TEXT, ""]


def test_a_line_that_is_drawn_anew_leaves_nothing_behind():
    """Its cursor waits at the left edge."""
    assert screen(f"print('{HAND_DRAWN}', end='\\r', flush=True); write_line('{TEXT}')") == [TEXT, ""]


def test_a_bar_of_tqdm_is_drawn_below_again():
    pytest.importorskip("tqdm")
    bar = "import tqdm; bar = tqdm.tqdm(total=8, bar_format='{n}/{total}'); bar.update(3); bar.refresh()"
    assert screen(f"{bar}; write_line('{TEXT}'); bar.close()") == [TEXT, "3/8", ""]


def test_other_programs_get_the_line_alone():
    pipe = subprocess.run([sys.executable, "-c", f"{SAY}write_line('{TEXT}')"], stderr=subprocess.PIPE, text=True)
    assert pipe.stderr == f"{TEXT}\n"


def test_an_object_in_the_place_of_stderr_gets_the_line_alone():
    replaced = "import io; real = sys.stderr; sys.stderr = io.StringIO(); sys.stderr.isatty = real.isatty"
    assert screen(f"{replaced}; write_line('{TEXT}'); real.write(repr(sys.stderr.getvalue()))") == [f"'{TEXT}\\n'"]
