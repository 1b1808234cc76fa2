from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
PIDS, MOUNTS = (os.readlink(f"/proc/self/ns/{name}") for name in ("pid", "mnt"))
LOADED = """
import json, sys
from autotune.probe import effects
effects.install(json.loads(sys.argv[1]))
print(json.dumps([name.partition("probe.")[2] for name in sys.modules if name.startswith("autotune.probe.")]))
"""
OF_HOOKS = {
    *(f"overlay.{name}" for name in ("actions", "imports", "layer", "native", "read", "shared", "stand_ins", "world")),
    "overlay.write",
    "isolate.unisolated_writes",
}
OF_KERNEL = {"overlay.across_devices"}


@pytest.mark.parametrize(
    ("layer", "needed", "others"), [("kernel", OF_KERNEL, OF_HOOKS), ("hooks", OF_HOOKS, OF_KERNEL)]
)
def test_a_layer_imports_its_own_files_alone(tmp_path, layer, needed, others):
    (tmp_path / "mount-namespace").write_text(f"{BOOT} pid:[1] 1 {MOUNTS}")
    loaded = installed(tmp_path, layer)
    assert needed <= loaded
    assert not others & loaded
    assert not list(tmp_path.glob("outside-*"))


def installed(run_dir, layer):
    """The modules of the probe that a process loads."""
    settings = {
        "layer": layer,
        "protected": [],
        "exempt": ["/"],
        "run_id": "1",
        "run_dir": str(run_dir),
        "mount_points": ["/"],
    }
    done = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(settings)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "place",
    [
        f"{BOOT} {PIDS} 999999999 mnt:[1]",
        f"another-boot {PIDS} {os.getpid()} {MOUNTS}",
        f" {PIDS} {os.getpid()} {MOUNTS}",
        f"{BOOT} pid:[1] {os.getpid()} mnt:[1]",
        f"{os.getpid()} {MOUNTS}",
        "",
        None,
    ],
    ids=["not below", "other machine", "unknown machine", "other container", "unknown", "empty", "none"],
)
def test_what_a_daemon_started_outside_of_the_mounts_is_held_by_hooks_and_noted(tmp_path, place):
    if place is not None:
        (tmp_path / "mount-namespace").write_text(place)
    assert installed(tmp_path, "kernel") >= OF_HOOKS
    assert len(list(tmp_path.glob("outside-*"))) == 1


def test_what_is_below_the_first_process_has_its_mounts_whatever_is_above_them(tmp_path):
    (tmp_path / "mount-namespace").write_text(f"{BOOT} {PIDS} {os.getpid()} mnt:[1]")
    assert not OF_HOOKS & installed(tmp_path, "kernel")
