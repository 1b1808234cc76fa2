"""What is said of a process by its counters: the bound that the evidence shows, and no other."""

from __future__ import annotations

import pytest
from attached_builders import CPUS, GPU, MEMORY, PROGRESS, WORKER, facts, use
from msgspec.structs import replace

from autotune.attach import restart, verdict
from autotune.model.attached import AttachedWindow, StackLine, Stacks
from autotune.model.watched import WatchedWindow

IDLE_WORKER = replace(WORKER, use=use(0.02, waits=0.97))
ASLEEP = replace(WORKER, use=use(0.0, waits=1.0), cpus=0.0)
ALONE = {"workers": ()}
FULL = use(0.99)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "starved_by_workers"),
        ({"state": "T"}, "stopped"),
        ({"memory": replace(MEMORY, swap_bytes=2**30, major_faults_per_s=900.0)}, "swapping"),
        ({"memory": replace(MEMORY, swap_bytes=2**30)}, "starved_by_workers"),
        ({"cpus": replace(CPUS, throttled_share=0.4)}, "throttled"),
        ({"gpus": (replace(GPU, busy_share=0.96),)}, "gpu_busy"),
        ({"gpus": (replace(GPU, busy_share=0.96, throttled_share=0.9),)}, "gpu_throttled"),
        ({"gpus": (GPU,)}, "starved_by_workers"),
        ({"main": use(0.3, disk=0.5), **ALONE}, "storage"),
        ({"workers": (replace(WORKER, use=use(0.1, disk=0.8)),)}, "storage"),
        ({"main": use(0.5, queued=0.4), **ALONE}, "queued"),
        ({"main": FULL, "cpus": replace(CPUS, own=7.8), **ALONE}, "cpu_busy"),
        ({"main": FULL, "cpus": replace(CPUS, own=1.0), **ALONE}, "one_thread"),
        ({"main": FULL, "cpus": replace(CPUS, own=1.0), "gpus": (GPU,), **ALONE}, "one_thread"),
        ({"gpus": (replace(GPU, busy_share=0.96, is_certain=False),)}, "cannot_tell"),
        ({"workers": (WORKER, ASLEEP, ASLEEP)}, "starved_by_workers"),
        ({"workers": (ASLEEP, ASLEEP)}, "cannot_tell"),
        ({"main": FULL, "cpus": replace(CPUS, own=3.9), **ALONE}, "cannot_tell"),
        ({"main": FULL, "cpus": replace(CPUS, own=3.9), "cores": 4, **ALONE}, "cpu_busy"),
        ({"main": use(0.3), **ALONE}, "starved"),
        ({"main": use(0.0, waits=1.0), "cpus": replace(CPUS, own=0.0, children=0.0), **ALONE}, "idle"),
        ({"main": use(0.03, queued=0.9), "cpus": replace(CPUS, own=0.03, children=0.0), **ALONE}, "queued"),
        ({"workers": (IDLE_WORKER,)}, "cannot_tell"),
        ({"main": None}, "cannot_tell"),
        ({"main": use(0.001, waits=0.99), "workers": (replace(WORKER, use=use(1.0)),)}, "idle"),
        ({"main": use(0.001, waits=0.99)}, "starved_by_workers"),
        ({"gpus": (replace(GPU, busy_share=0.96, other_processes=2),)}, "gpu_busy"),
    ],
)
def test_the_bound_that_the_evidence_shows(changes, kind):
    assert verdict.verdict(facts(**changes)).kind == kind


def test_a_thread_that_waits_while_the_gpu_computes_is_not_starved():
    """With CUDA the main thread waits for the thread that runs the backward pass, or for the device."""
    found = verdict.verdict(facts(gpus=(replace(GPU, busy_share=0.8),)))
    assert found.kind == "cannot_tell"
    assert "NVIDIA H100 80GB HBM3: busy in 80 % of NVML's periods" in found.evidence


def test_what_is_not_told_is_no_evidence():
    """Where the kernel hides where threads sleep, and NVML a share, none of them counts as zero."""
    main = replace(use(0.3), waits_for_work_share=None, queued_share=None)
    assert verdict.verdict(facts(main=main)).kind == "cannot_tell"


NO_SHARE = ({"gpus": (replace(GPU, busy_share=None),)}, {"has_cuda": True}, {"has_cuda": None})


@pytest.mark.parametrize("gpu", NO_SHARE, ids=["no share", "no NVML", "hidden"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"main": use(0.3), **ALONE},
        {"main": FULL, "cpus": replace(CPUS, own=1.0), **ALONE},
        {"main": use(0.0, waits=1.0), "cpus": replace(CPUS, own=0.0, children=0.0), **ALONE},
    ],
    ids=["starved by workers", "starved", "one thread", "idle"],
)
def test_a_gpu_of_which_nothing_is_known_may_compute(changes, gpu):
    assert verdict.verdict(facts(**changes)).kind != "cannot_tell"
    assert verdict.verdict(facts(**changes, **gpu)).kind == "cannot_tell"


def test_of_a_busy_gpu_no_more_is_said_than_counters_tell():
    found = verdict.verdict(facts(gpus=(replace(GPU, busy_share=0.9), replace(GPU, busy_share=0.2))))
    assert found.text == (
        "The busiest of its 2 GPUs is busy: kernels run in 90 % of NVML's periods. Counters do not tell how well these "
        "kernels use the GPU, nor whether they wait for other ranks (NCCL)."
    )


def sampled(**phases):
    lines = [
        StackLine("train.py", number, "main", phase, share) for number, (phase, share) in enumerate(phases.items())
    ]
    return Stacks("py-spy", 100, phases, tuple(lines))


def test_on_cuda_a_full_core_may_be_a_wait_that_spins():
    one = {"main": FULL, "cpus": replace(CPUS, own=1.0), **ALONE}
    found = verdict.verdict(facts(**one, gpus=(GPU,)), sampled(other=0.9, forward=0.1))
    assert found.kind == "one_thread"
    assert "Python, or a wait for the GPU (item, cpu, synchronize), which spins" in found.text
    assert found.lost_share == pytest.approx(0.6)
    assert "a wait for the GPU, which spins" in verdict.verdict(facts(**one, gpus=(GPU,))).text


@pytest.mark.parametrize(
    ("phases", "kind", "said"),
    [
        (
            {"data_wait": 0.8, "other": 0.2},
            "input_bound",
            "in 80 % of its stack samples it waits for data, mostly train.py:0",
        ),
        ({"checkpoint": 0.9, "other": 0.1}, "phase", "90 % of its stack samples are in checkpoint: look again"),
        ({"evaluation": 0.7, "other": 0.3}, "phase", "70 % of its stack samples are in evaluation: look again"),
        ({"other": 0.4, "evaluation": 0.4, "forward": 0.2}, "one_thread", "stacks tell, counters do not"),
    ],
)
def test_stacks_that_are_no_python_of_the_loop_are_named(phases, kind, said):
    one = facts(main=FULL, cpus=replace(CPUS, own=1.0), **ALONE)
    found = verdict.verdict(one, sampled(**phases))
    assert found.kind == kind
    assert said in found.text
    if kind == "input_bound":
        assert found.lost_share == pytest.approx(0.8)


def test_stacks_tell_python_from_operations_of_torch():
    one = facts(main=FULL, cpus=replace(CPUS, own=1.0), **ALONE)
    line = StackLine("train.py", 7, "tokenise", "other", 0.8)
    python = verdict.verdict(one, Stacks("py-spy", 100, {"other": 0.8, "forward": 0.2}, (line,)))
    assert python.kind == "one_python_thread"
    assert "80 % of its time is outside of the model and the optimizer, mostly train.py:7" in python.text
    assert verdict.verdict(one, Stacks("py-spy", 100, {"forward": 0.9, "other": 0.1}, ())).kind == "one_thread"


@pytest.mark.parametrize(
    ("phases", "queued", "kind"),
    [
        ({"data_wait": 60.0, "forward": 30.0, "other": 10.0}, 1.0, "input_bound"),
        ({"data_wait": 40.0, "forward": 30.0, "backward": 30.0}, None, "compute_bound"),
        ({"other": 60.0, "forward": 40.0}, 0.0, "phase"),
        ({"other": 60.0, "forward": 40.0}, 50.0, "queued"),
        ({"other": 60.0, "forward": 40.0}, 130.0, "queued"),
        ({"other": 34.0, "forward": 33.0, "data_wait": 33.0}, 0.0, "cannot_tell"),
    ],
)
def test_a_window_says_what_a_step_is_made_of(phases, queued, kind):
    window = AttachedWindow(WatchedWindow(2, 20, "planned", 100.0, phases, {"other": "a.py:3"}, queued, None), "file")
    found = verdict.verdict(facts(), None, window)
    assert found.kind == kind
    assert found.evidence[0] == "20 steps of 100 ms"
    if kind == "phase":
        assert found.text == "The largest part of each step, 60 %, is the script's own code, mostly in a.py:3."
    share = found.lost_share
    of_queued = min(1.0, (queued or 0.0) / 100.0)
    assert share == {"input_bound": 0.6, "queued": of_queued}.get(kind)
    assert verdict.verdict(facts(state="T"), None, window).kind == "stopped"


def test_a_restart_saves_at_most_what_is_wasted_of_what_is_left():
    one = facts()
    found = restart.restart(one, verdict.verdict(one))
    assert found.answer == "may_pay"
    assert found.saves_s == pytest.approx(0.6 * 97_600)
    assert found.missing == ("how long the start takes", "when it last saved")


def test_cpus_that_others_use_are_not_won_back_by_a_restart():
    one = facts(main=use(0.5, queued=0.4), cpus=replace(CPUS, of_others=1.9), **ALONE)
    found = restart.restart(one, verdict.verdict(one))
    assert found.missing[0] == "whether the other processes, which use 1.9 CPUs, will have ended"
    alone = replace(one, cpus=replace(CPUS, of_others=0.1))
    assert restart.restart(alone, verdict.verdict(alone)).missing[0] == "how long the start takes"


@pytest.mark.parametrize("changes", [{"step": 49_990, "left_s": 20.0}, {"left_s": 90.0}])
def test_a_run_that_is_nearly_over_is_not_worth_it(changes):
    one = facts(progress=replace(PROGRESS, **changes))
    assert restart.restart(one, verdict.verdict(one)).answer == "not_worth_it"


def test_the_end_of_an_epoch_is_not_the_end_of_the_run():
    one = facts(progress=replace(PROGRESS, left_s=None, is_of_epoch=True))
    found = restart.restart(one, verdict.verdict(one))
    assert found.answer == "cannot_tell"
    assert 'how many epochs are left (its bar counts the batches of one: --at "step N/M")' in found.missing


def test_without_a_progress_line_it_is_said_that_it_is_missing():
    one = facts(progress=None)
    found = restart.restart(one, verdict.verdict(one))
    assert (found.answer, found.saves_s) == ("cannot_tell", None)
    assert "how far it is (its progress line)" in found.missing
