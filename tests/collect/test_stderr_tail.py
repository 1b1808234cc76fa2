from __future__ import annotations

import pytest

from autotune.collect.stderr_tail import MOST_BYTES, MOST_LINES, last_lines


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"", ""),
        (b"one\n\ntwo  \n", "one\ntwo"),
        (b"no end", "no end"),
        (b"  0%|\r 50%|\r100%|\n", "100%|"),
        (b"  0%|\r 50%|\r", " 50%|"),
        (b"\xff bytes\r\n", "\ufffd bytes"),
    ],
)
def test_the_last_state_of_every_line(tmp_path, written: bytes, said: str) -> None:
    (tmp_path / "stderr").write_bytes(written)
    assert last_lines(tmp_path / "stderr") == said


def test_only_the_end_of_much(tmp_path) -> None:
    file = tmp_path / "stderr"
    file.write_text("".join(f"line {number}\n" for number in range(1000)))
    assert last_lines(file).splitlines() == [f"line {number}" for number in range(1000 - MOST_LINES, 1000)]
    file.write_bytes(b"x" * (MOST_BYTES + 5))
    assert len(last_lines(file)) == MOST_BYTES


def test_no_file_says_nothing(tmp_path) -> None:
    assert last_lines(tmp_path / "stderr") == ""
