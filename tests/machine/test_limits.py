from __future__ import annotations

import psutil
import pytest

from autotune.machine import limits

CPUINFO = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763 64-Core Processor\n"
MEMINFO = "MemTotal:       2000 kB\nMemFree:         100 kB\nMemAvailable:   1500 kB\n"


def topology(*siblings):
    return {f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": text for cpu, text in enumerate(siblings)}


@pytest.mark.parametrize(
    ("affinity", "quota", "host", "cpus", "by"),
    [
        (None, None, 8, 8.0, "host"),
        (frozenset(range(8)), None, 8, 8.0, "host"),
        (frozenset({0, 1}), None, 8, 2.0, "affinity"),
        (frozenset({0, 1}), 1.5, 8, 1.5, "cgroup"),
        (frozenset({0, 1}), 2.0, 8, 2.0, "affinity"),
        (frozenset(range(8)), 16.0, 8, 8.0, "host"),
        (None, 2.0, 128, 2.0, "cgroup"),
        (frozenset({0, 1}), None, None, 2.0, None),
        (None, None, None, None, None),
    ],
)
def test_cpu_quota_is_the_least(affinity, quota, host, cpus, by):
    assert limits.cpu_quota(affinity, quota, host) == cpus
    assert limits.cpu_limited_by(affinity, quota, host) == by


@pytest.mark.parametrize(
    ("ranges", "cpus"), [("0", {0}), ("0-3", {0, 1, 2, 3}), ("0-1,8,10-11", {0, 1, 8, 10, 11}), ("", set())]
)
def test_cpu_list(ranges, cpus):
    assert limits.cpu_list(ranges) == cpus


@pytest.mark.parametrize(
    ("affinity", "cores"),
    [({0, 1, 2, 3}, 2), ({0, 1}, 2), ({0, 2}, 1), ({3}, 1), ({0, 9}, None)],
    ids=[
        "both threads of two cores",
        "a thread of each",
        "both of one",
        "one thread",
        "a CPU without topology",
    ],
)
def test_physical_cores(fake_root, affinity, cores):
    root = fake_root(topology("0,2", "1,3", "0,2", "1,3"))
    assert limits.physical_cores(root, frozenset(affinity)) == cores


def test_facts_of_a_container(fake_root, v2_mount):
    root = fake_root(
        topology("0", "1", "2", "3")
        | {
            "proc/self/mountinfo": v2_mount,
            "proc/self/cgroup": "0::/\n",
            "proc/cpuinfo": CPUINFO,
            "proc/meminfo": MEMINFO,
            "proc/loadavg": "3.25 2.00 1.00 2/300 999\n",
            "sys/devices/system/cpu/online": "0-127\n",
            "sys/fs/cgroup/cpu.max": "200000 100000",
            "sys/fs/cgroup/memory.max": "1024000",
            "sys/fs/cgroup/memory.current": "24000",
        }
    )
    found = {fact.name: fact.value for fact in limits.facts(root, frozenset(range(4)))}
    assert found == {
        "machine.cpu_quota": 2.0,
        "machine.cpu_limited_by": "cgroup",
        "machine.cgroup_cpus": 2.0,
        "machine.host_cpus": 128,
        "machine.physical_cores": 4,
        "machine.cpu_name": "AMD EPYC 7763 64-Core Processor",
        "machine.load": 3.25,
        "machine.memory_limit_bytes": 1024000,
        "machine.memory_available_bytes": 1000000,
    }


def test_a_limit_above_the_memory_is_none(fake_root, v2_mount):
    root = fake_root(
        {
            "proc/self/mountinfo": v2_mount,
            "proc/self/cgroup": "0::/\n",
            "proc/meminfo": MEMINFO,
            "sys/fs/cgroup/memory.max": "9223372036854771712",
            "sys/fs/cgroup/memory.current": "24000",
        }
    )
    assert limits.memory_limit(root) == 2000 * 1024
    assert limits.memory_available(root) == 1500 * 1024


def test_without_proc_and_sys_psutil_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 10 if logical else 5)
    monkeypatch.setattr(psutil, "getloadavg", lambda: (0.5, 0.1, 0.1))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"total": 16, "available": 9}))
    monkeypatch.setattr(limits, "current_affinity", lambda: None)
    monkeypatch.setattr(limits.platform, "processor", lambda: "")
    assert {fact.name: fact.value for fact in limits.facts(tmp_path)} == {
        "machine.cpu_quota": 10.0,
        "machine.cpu_limited_by": "host",
        "machine.host_cpus": 10,
        "machine.physical_cores": 5,
        "machine.load": 0.5,
        "machine.memory_limit_bytes": 16,
        "machine.memory_available_bytes": 9,
    }


def test_this_machine_agrees_with_itself():
    found = {fact.name: fact.value for fact in limits.facts()}
    assert 0 < found["machine.cpu_quota"] <= found["machine.host_cpus"]
    assert 0 < found["machine.memory_available_bytes"] <= found["machine.memory_limit_bytes"]
