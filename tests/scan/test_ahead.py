"""Jobs that other processes do ahead."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from autotune.scan import ahead


def number(value: int) -> bytes:
    return str(value).encode()


def fails() -> bytes:
    raise ValueError


def dies() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b"never"


def pid() -> bytes:
    return number(os.getpid())


@pytest.mark.parametrize("num_processes", [1, 2, 3, 8])
def test_results_come_in_the_order_of_the_jobs(num_processes: int):
    assert list(ahead.results([partial(number, one) for one in range(7)], num_processes)) == [
        number(one) for one in range(7)
    ]


def test_each_process_is_another_one():
    found = {int(one) for one in ahead.results([pid] * 4, 2)}
    assert len(found) == 2
    assert os.getpid() not in found


def test_results_may_be_large():
    assert [len(one) for one in ahead.results([lambda: b"x" * 3_000_000] * 3, 2)] == [3_000_000] * 3


def test_a_job_that_fails_gives_nothing():
    assert list(ahead.results([fails, partial(number, 1)], 1)) == [b"", b"1"]


def test_a_process_that_dies_gives_nothing_any_more():
    assert list(ahead.results([dies, partial(number, 1), partial(number, 2), partial(number, 3)], 2)) == [
        *(b"", b"1"),
        *(b"", b"3"),
    ]


def test_processes_end_with_the_results():
    results = ahead.results([pid] * 4, 2)
    child = int(next(results))
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_where_the_system_allows_no_process_nothing_is_done_ahead(monkeypatch: pytest.MonkeyPatch):
    def refused() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refused)
    assert list(ahead.results([partial(number, 1)] * 3, 2)) == [b"", b"", b""]


def half() -> bytes:
    os.write(WRITER, (100).to_bytes(ahead.SIZE_BYTES, "big") + b"half")
    os.kill(os.getpid(), signal.SIGKILL)
    return b"never"


WRITER = 0


def test_half_a_result_is_none(monkeypatch: pytest.MonkeyPatch):
    pipe = os.pipe

    def noted() -> tuple[int, int]:
        global WRITER
        reader, WRITER = pipe()
        return reader, WRITER

    monkeypatch.setattr(os, "pipe", noted)
    assert list(ahead.results([half], 1)) == [b""]


def test_children_that_the_system_reaps_are_no_error():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert list(ahead.results([partial(number, one) for one in range(3)], 2)) == [b"0", b"1", b"2"]
    finally:
        signal.signal(signal.SIGCHLD, before)
