from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import asdict

from autotune.machine import sampler
from autotune.machine.cgroup import Throttling
from autotune.machine.sampler import GpuSample, MachineSampler, MachineSamples

A, B = Path("a"), Path("b")


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        pytest.param({A: Throttling(1.0, 10, 100)}, {A: Throttling(2.0, 60, 200)}, 0.1, id="waits over wall"),
        pytest.param({A: Throttling(0.0, 0, 0)}, {A: Throttling(40.0, 30, 100)}, 0.3, id="many CPUs waited"),
        pytest.param({A: Throttling(5.0, 9, 50)}, {A: Throttling(5.0, 9, 90)}, 0.0, id="not throttled"),
        pytest.param({A: Throttling(5.0, 9, 50)}, {A: Throttling(5.0, 9, 50)}, 0.0, id="no period passed"),
        pytest.param(
            {A: Throttling(0.0, 0, 0), B: Throttling(0.0, 0, 0)},
            {A: Throttling(1.0, 50, 100), B: Throttling(2.0, 50, 100)},
            0.2,
            id="the worse level",
        ),
        pytest.param({}, {}, None, id="no counters"),
        pytest.param({A: Throttling(0.0, 0, 0)}, {}, None, id="counters vanished"),
    ],
)
def test_throttled_share(before, after, share):
    assert sampler.throttled_share(before, after, wall_s=10.0) == share


def sample(**known):
    return GpuSample(**dict.fromkeys(GpuSample.__struct_fields__) | known)


def test_summarise_ignores_what_a_sample_does_not_know():
    samples = [
        sample(kernel_share=0.2, clock_mhz=1000, is_slowed=True, memory_bytes=5, pcie_generation=1, pcie_width=16),
        sample(kernel_share=0.4, clock_mhz=2000, is_slowed=False, memory_bytes=9, pcie_generation=5, pcie_width=8),
        sample(),
    ]
    assert sampler.summarise(samples) == {
        "gpu_kernel_share": pytest.approx(0.3),
        "gpu_clock_mhz": 1500.0,
        "gpu_throttled_share": 0.5,
        "gpu_memory_peak_bytes": 9,
        "gpu_pcie_generation": 5,
        "gpu_pcie_width": 16,
    }


def test_without_a_gpu_every_gpu_field_is_unknown():
    assert set(sampler.summarise([]).values()) == {None}


def test_look(fake_nvml, board):
    library = fake_nvml(board(utilisation=40, mask=0x20, clock=1000, used=77, pcie=(3, 5, 8, 16)))
    assert sampler.sample_once(library, library.boards[0]) == GpuSample(0.4, 1000, True, 77, 3, 8)
    dumb = board(utilisation=None, mask=None, clock=None, max_clock=None, used=77, pcie=None)
    assert sampler.sample_once(library, dumb) == sample(memory_bytes=77)


def test_facts_leave_out_what_is_unknown():
    assert {fact.name: fact.value for fact in sampler.facts(MachineSamples(wall_s=4.0, num_samples=8))} == {}
    known = MachineSamples(
        wall_s=4.0,
        num_samples=8,
        cpu_s=6.0,
        rss_peak_bytes=100,
        read_bytes=0,
        throttled_share=0.25,
        num_oom_kills=0,
        gpu_kernel_share=0.5,
        gpu_throttled_share=0.0,
        gpu_clock_mhz=1500.0,
        gpu_pcie_generation=4,
        gpu_pcie_width=16,
    )
    assert {fact.name: fact.value for fact in sampler.facts(known)} == {
        "machine.cpus_used": 1.5,
        "machine.rss_peak_bytes": 100,
        "machine.read_bytes": 0,
        "machine.throttled_share": 0.25,
        "machine.num_oom_kills": 0,
        "machine.gpu_kernel_share": 0.5,
        "machine.gpu_throttled_share": 0.0,
        "machine.gpu_clock_mhz": 1500.0,
        "machine.gpu_pcie_generation": 4,
        "machine.gpu_pcie_width": 16,
    }


def test_sampled_survives_json():
    sampled = MachineSamples(wall_s=1.5, num_samples=3, cpu_s=1.0, num_oom_kills=1)
    assert MachineSamples(**json.loads(json.dumps(asdict(sampled)))) == sampled


@pytest.mark.parametrize(("kills", "killed"), [(None, False), (0, False), (1, True)])
def test_was_killed_for_memory(kills, killed):
    assert MachineSamples(wall_s=1.0, num_samples=1, num_oom_kills=kills).was_killed_for_memory is killed


def test_counters_are_differences(fake_root, v2_mount, fake_nvml, board):
    events = "sys/fs/cgroup/memory.events"
    stat = "sys/fs/cgroup/cpu.stat"
    files = {
        "proc/self/mountinfo": v2_mount,
        "proc/self/cgroup": "0::/\n",
        events: "oom_kill 3\n",
        stat: "nr_periods 10\nnr_throttled 5\nthrottled_usec 7000000\n",
    }
    root, times = fake_root(files), iter([100.0, 110.0])
    watch = MachineSampler(
        os.getpid(),
        interval_s=0.01,
        root=root,
        library=fake_nvml(board()),
        environ={},
        clock=lambda: next(times),
    )
    with watch:
        (root / events).write_text("oom_kill 4\n")
        (root / stat).write_text("nr_periods 110\nnr_throttled 65\nthrottled_usec 11000000\n")
    sampled = watch.stop()
    assert sampled is watch.stop()
    assert (sampled.wall_s, sampled.num_oom_kills, sampled.throttled_share) == (10.0, 1, 0.4)
    assert sampled.was_killed_for_memory
    assert (sampled.gpu_kernel_share, sampled.gpu_throttled_share, sampled.gpu_clock_mhz) == (
        0.5,
        0.0,
        1980.0,
    )
    assert sampled.num_samples >= 1


def test_a_hidden_gpu_is_not_sampled(fake_nvml, board):
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    with MachineSampler(os.getpid(), library=fake_nvml(board()), environ=hidden) as watch:
        pass
    assert watch.stop().gpu_kernel_share is None


def test_a_run_that_ends_before_it_is_watched(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with MachineSampler(child.pid, interval_s=0.01, root=tmp_path) as watch:
        pass
    sampled = watch.stop()
    unknown = (sampled.cpu_s, sampled.rss_peak_bytes, sampled.num_oom_kills, sampled.throttled_share)
    assert unknown == (None, None, None, None)


def test_a_real_run_is_accounted_for():
    work = "import time\nx = bytearray(50_000_000)\nwhile time.process_time() < 0.5: pass\ninput()"
    child = subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE)
    watch = MachineSampler(child.pid, interval_s=0.02).start()
    try:
        while (watch._tree.cpu_s or 0.0) < 0.45:
            assert child.poll() is None
    finally:
        sampled = watch.stop()
        child.communicate(b"\n")
    assert 0.45 <= sampled.cpu_s < 1.5
    assert 50_000_000 < sampled.rss_peak_bytes < 200_000_000
    assert sampled.num_processes_peak == 1
