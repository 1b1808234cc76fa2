from __future__ import annotations

import pytest

from autotune.machine import cgroup
from autotune.machine.cgroup import Throttling

CG = "sys/fs/cgroup"
V1 = (
    "30 23 0:1 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "31 30 0:2 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:3 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
DOCKER = "/docker/abc123"


@pytest.fixture
def v2(fake_root, v2_mount):
    """A machine with cgroup v2 on which this process is in `path`."""
    return lambda path, files: fake_root(
        {"proc/self/mountinfo": v2_mount, "proc/self/cgroup": f"0::{path}\n"}
        | {f"{CG}/{name}": text for name, text in files.items()}
    )


@pytest.fixture
def v1(fake_root):
    """A machine with cgroup v1; `seen` is the part of the hierarchy that is mounted."""
    return lambda path, seen, files: fake_root(
        {
            "proc/self/mountinfo": V1.format(root=seen),
            "proc/self/cgroup": f"5:memory:{path}\n3:cpu,cpuacct:{path}\n1:name=systemd:{path}\n",
        }
        | {f"{CG}/{name}": text for name, text in files.items()}
    )


@pytest.mark.parametrize(
    ("path", "files", "quota"),
    [
        pytest.param("/", {}, None, id="root group has no cpu.max"),
        pytest.param("/", {"cpu.max": "150000 100000"}, 1.5, id="container"),
        pytest.param("/a", {"a/cpu.max": "max 100000"}, None, id="max"),
        pytest.param("/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0, id="parent"),
        pytest.param("/a/b", {"a/cpu.max": "800000 100000", "a/b/cpu.max": "50000 50000"}, 1.0, id="leaf"),
        pytest.param(
            "/user.slice/user-1000.slice/session-2.scope",
            {"user.slice/user-1000.slice/cpu.max": "400000 100000"},
            4.0,
            id="systemd slice",
        ),
        pytest.param("/a", {"b/cpu.max": "100000 100000"}, None, id="another group's"),
        pytest.param("/../other", {"cpu.max": "300000 100000"}, 3.0, id="outside the namespace"),
        pytest.param("/a", {"a/cpu.max": ""}, None, id="empty file"),
        pytest.param("/a", {"a/cpu.max": "nonsense here"}, None, id="garbage"),
    ],
)
def test_cpu_quota_v2(v2, path, files, quota):
    assert cgroup.cpu_quota(v2(path, files)) == quota


@pytest.mark.parametrize(
    ("seen", "files", "quota"),
    [
        pytest.param("/", {"cpu,cpuacct/docker/abc123/cpu.cfs_quota_us": "250000"}, 2.5, id="host mount"),
        pytest.param(DOCKER, {"cpu,cpuacct/cpu.cfs_quota_us": "250000"}, 2.5, id="only its own group is mounted"),
        pytest.param("/", {"cpu,cpuacct/docker/abc123/cpu.cfs_quota_us": "-1"}, None, id="no quota"),
        pytest.param("/", {"cpu,cpuacct/docker/cpu.cfs_quota_us": "700000"}, 7.0, id="parent"),
        pytest.param("/kubepods", {"cpu,cpuacct/cpu.cfs_quota_us": "300000"}, 3.0, id="unrelated mount root"),
    ],
)
def test_cpu_quota_v1(v1, seen, files, quota):
    periods = {name.replace("quota", "period"): "100000" for name in files}
    assert cgroup.cpu_quota(v1(DOCKER, seen, files | periods)) == quota


def test_a_quota_without_its_period_is_unknown(v1):
    assert cgroup.cpu_quota(v1("/", "/", {"cpu,cpuacct/cpu.cfs_quota_us": "250000"})) is None


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"a/memory.max": "max"}, None),
        ({"a/memory.max": "4096"}, 4096),
        ({"a/memory.max": "4096", "a/b/memory.max": "8192"}, 4096),
        ({"a/memory.max": "max", "a/b/memory.max": "8192"}, 8192),
    ],
)
def test_memory_limit_v2(v2, files, limit):
    assert cgroup.memory_limit(v2("/a/b", files)) == limit


def test_memory_limit_v1(v1):
    root = v1(DOCKER, DOCKER, {"memory/memory.limit_in_bytes": "1073741824"})
    assert cgroup.memory_limit(root) == 2**30


def test_hybrid_takes_the_tighter_of_both(fake_root, v2_mount):
    unified = v2_mount.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
    root = fake_root(
        {
            "proc/self/mountinfo": V1.format(root="/") + unified,
            "proc/self/cgroup": "4:memory:/job\n0::/job\n",
            f"{CG}/memory/job/memory.limit_in_bytes": "9000",
            f"{CG}/unified/job/memory.max": "8000",
        }
    )
    assert cgroup.memory_limit(root) == 8000


@pytest.mark.parametrize(
    ("path", "folders"),
    [("/a/b", ["a/b", "a", ""]), ("/", [""]), ("/../other", [""]), ("/a/../../other", [""])],
)
def test_levels_end_at_the_mount_and_never_leave_it(v2, path, folders):
    root = v2(path, {})
    assert [group.folder for group in cgroup.groups("cpu", root)] == [root / CG / name for name in folders]


def test_no_cgroup_at_all(tmp_path):
    assert cgroup.groups("cpu", tmp_path) == ()
    assert cgroup.cpu_quota(tmp_path) is None
    assert cgroup.memory_left(tmp_path) is None
    assert cgroup.throttling(tmp_path) == {}
    assert cgroup.num_oom_kills(tmp_path) is None


@pytest.mark.parametrize(
    ("files", "left"),
    [
        pytest.param({"memory.max": "1000", "memory.current": "400"}, 600, id="plain"),
        pytest.param(
            {"memory.max": "1000", "memory.current": "900", "memory.stat": "anon 5\ninactive_file 300\n"},
            400,
            id="cache is given back",
        ),
        pytest.param({"memory.max": "1000", "memory.current": "1200"}, 0, id="above the limit"),
        pytest.param({"memory.max": "max", "memory.current": "400"}, None, id="no limit"),
        pytest.param({"memory.max": "1000"}, None, id="usage unknown"),
        pytest.param(
            {"memory.max": "1000", "memory.current": "0", "a/memory.max": "500", "a/memory.current": "100"},
            400,
            id="tightest level",
        ),
    ],
)
def test_memory_left(v2, files, left):
    assert cgroup.memory_left(v2("/a", files)) == left


def test_memory_left_v1(v1):
    files = {
        "limit_in_bytes": "1000",
        "usage_in_bytes": "700",
        "stat": "inactive_file 1\ntotal_inactive_file 200\n",
    }
    root = v1("/", "/", {f"memory/memory.{name}": text for name, text in files.items()})
    assert cgroup.memory_left(root) == 500


def test_throttling_v2_counts_microseconds(v2):
    stat = "usage_usec 99\nnr_periods 40\nnr_throttled 10\nthrottled_usec 2500000\n"
    root = v2("/a", {"a/cpu.stat": stat, "cpu.stat": "usage_usec 99\n"})
    assert cgroup.throttling(root) == {root / CG / "a": Throttling(2.5, 10, 40)}


def test_throttling_v1_counts_nanoseconds(v1):
    stat = "nr_periods 4\nnr_throttled 1\nthrottled_time 500000000\n"
    root = v1("/", "/", {"cpu,cpuacct/cpu.stat": stat})
    assert cgroup.throttling(root) == {root / CG / "cpu,cpuacct": Throttling(0.5, 1, 4)}


def test_oom_kills_of_the_innermost_group(v2):
    files = {"a/b/memory.events": "oom 3\noom_kill 2\n", "a/memory.events": "oom_kill 7\n"}
    assert cgroup.num_oom_kills(v2("/a/b", files)) == 2


def test_oom_kills_v1(v1):
    root = v1("/", "/", {"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"})
    assert cgroup.num_oom_kills(root) == 5
