"""The GPUs of a process that somebody else started, by an NVML that answers as pynvml does."""

from __future__ import annotations

import pytest

from autotune.machine import gpu_use


def looked(library, pids, environ, looks=4):
    used = gpu_use.used_by(library, pids, environ)
    return [gpu_use.reading(library, one, pids, [gpu_use.sample(library, one)] * looks) for one in used]


def test_the_devices_that_list_the_process_are_its_own(fake_nvml, board):
    """Of three boards it computes on the second, beside another process; CUDA_VISIBLE_DEVICES does not matter then."""
    library = fake_nvml(
        board(), board(pids=(7, 99), process_bytes=2**30, used=5 * 2**30, utilisation=40), board(pids=(99,))
    )
    (found,) = looked(library, (7, 1), {"CUDA_VISIBLE_DEVICES": "0"})
    assert found.is_certain
    assert found.summary["gpu_kernel_share"] == pytest.approx(0.4)
    assert (found.process_bytes, found.used_bytes, found.other_processes) == (2**30, 5 * 2**30, 1)
    assert found.slow_downs == ()


def test_where_none_lists_it_cuda_says_which_it_is(fake_nvml, board):
    library = fake_nvml(board(name="A"), board(name="B", pids=(5,)))
    (found,) = looked(library, (7,), {"CUDA_VISIBLE_DEVICES": "1"})
    assert (found.name, found.is_certain) == ("B", True)
    assert (found.process_bytes, found.other_processes) == (None, None)


def test_of_several_that_it_may_see_none_is_certainly_its_own(fake_nvml, board):
    """A local rank in a container computes on a GPU of its number."""
    (found,) = looked(fake_nvml(board(name="A", pids=(5,)), board(name="B", pids=(6,))), (7,), {"LOCAL_RANK": "1"})
    assert (found.name, found.is_certain, found.other_processes) == ("A", False, None)


def test_a_gpu_that_is_slowed_down_says_why(fake_nvml, board):
    (found,) = looked(fake_nvml(board(pids=(7,), mask=0x40, clock=900)), (7,), {})
    assert found.summary["gpu_throttled_share"] == 1.0
    assert found.slow_downs == ("hardware thermal slow-down",)


def test_what_nvml_does_not_tell_is_unknown(fake_nvml, board):
    silent = board(pids=None, utilisation=None, clock=None, mask=None)
    (found,) = looked(fake_nvml(silent), (7,), {})
    assert (found.summary["gpu_kernel_share"], found.other_processes, found.is_certain) == (None, None, True)


def test_without_a_visible_gpu_there_is_none(fake_nvml, board):
    assert gpu_use.used_by(fake_nvml(board()), (7,), {"CUDA_VISIBLE_DEVICES": ""}) == ()
