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
