from __future__ import annotations

import os
import signal
import threading

import pytest

from autotune.machine.signals import check_interrupted, terminate_on_signal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_by_an_exception_and_the_next_one_waits(number: int) -> None:
    cleaned = []
    with pytest.raises(SystemExit) as ended, terminate_on_signal():
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned.append(True)
    assert (ended.value.code, cleaned) == (128 + number, [True])
    assert signal.getsignal(number) is signal.SIG_DFL


def test_what_somebody_else_decided_stays() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminate_on_signal():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_inside_one_another_the_outer_one_counts() -> None:
    with terminate_on_signal():
        outer = signal.getsignal(signal.SIGTERM)
        with terminate_on_signal():
            assert signal.getsignal(signal.SIGTERM) is outer
        assert signal.getsignal(signal.SIGTERM) is outer
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_other_threads_leave_signals_alone() -> None:
    seen = []

    def work() -> None:
        with terminate_on_signal():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


class Dying:
    """Python drops what is raised while an object dies."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_drops_is_raised_again() -> None:
    seen = []
    with pytest.raises(KeyboardInterrupt), terminate_on_signal():
        check_interrupted()
        Dying()
        seen.append("it went on")
        with terminate_on_signal():
            check_interrupted()
        seen.append("nothing was raised")
    assert seen == ["it went on"]
    check_interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_is_the_main_threads() -> None:
    raised = []

    def work() -> None:
        try:
            check_interrupted()
        except KeyboardInterrupt:
            raised.append(True)

    with pytest.raises(KeyboardInterrupt), terminate_on_signal():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert raised == []
