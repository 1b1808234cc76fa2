"""The line that says what autotune works on, once that takes longer."""

from __future__ import annotations

import io
import threading
import time

import pytest

from autotune.report.waiting import waiting


class Terminal(io.StringIO):
    """Tells when something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.was_written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.was_written.set()
        return super().write(text)


def test_what_is_short_shows_nothing() -> None:
    stream = Terminal()
    with waiting("reading x", stream=stream):
        pass
    assert stream.getvalue() == ""


def test_what_takes_longer_is_named_with_its_seconds_and_goes_away() -> None:
    stream = Terminal()
    with waiting("reading a\x1b[31m\nb", stream=stream, after_s=0.0, renewed_s=60.0):
        assert stream.was_written.wait(60)
    _, line, blank, end = stream.getvalue().split("\r")
    assert line.startswith("autotune: reading a b: ")
    assert (blank, end) == (" " * len(line), "")


def test_it_goes_away_before_an_error_is_said() -> None:
    stream = Terminal()
    with pytest.raises(ValueError), waiting("reading x", stream=stream, after_s=0.0, renewed_s=60.0):
        assert stream.was_written.wait(60)
        raise ValueError
    assert stream.getvalue().endswith("\r")
    assert not [one for one in threading.enumerate() if one.name == "autotune-waiting"]


def test_quiet_and_a_file_get_nothing() -> None:
    stream, file = Terminal(), io.StringIO()
    with waiting("x", quiet=True, stream=stream, after_s=0.0), waiting("x", stream=file, after_s=0.0):
        time.sleep(0.05)
    assert stream.getvalue() == file.getvalue() == ""
