"""The planned mounts, made by the kernel: small worlds of mounts in a private mount namespace of root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DRIVER = """
import json, os, resource, subprocess, sys
from pathlib import Path
from autotune.collect import isolation, overlay_plan, stale_runs
from autotune.collect.overlay_plan import OverlayMount

given = json.loads(sys.argv[1])
for command in given["world"]:
    subprocess.run(command, shell=True, check=True)
run = Path(given["run"])
run.mkdir(parents=True)
os.chdir(given["project"])
held = isolation.choose(run, [Path(given["project"])], {**os.environ, **given["environ"]})
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
limit = given["limit"] or hard
done = subprocess.run(
    [*held.words(run), sys.executable, "-I", "-c", given["script"]],
    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard)), capture_output=True, text=True,
)
effects = isolation.effects(held, ())
stale_runs.remove_scratch(run)
print(json.dumps({
    "layer": held.layer, "why": held.why, "code": done.returncode, "out": done.stdout, "error": done.stderr,
    "failure": isolation.failure(run), "gaps": effects.gaps, "escaped": effects.escaped,
    "other_devices": effects.other_devices, "stand_ins": len(held.plan.stand_ins) if held.plan else 0,
    "scratch": held.plan.scratch if held.plan else (),
    "redirected": [(row.path, row.kind) for row in effects.redirected],
    "after": subprocess.run(given["after"], shell=True, capture_output=True, text=True).stdout,
}))
"""


def may_mount():
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not may_mount(), reason="only root may mount here")


@dataclass
class Worlds:
    base: Path

    def run(self, world: list[str], script: str, *, after: str = "true", **more: Any) -> dict[str, Any]:
        """What became of `script` in a world that shell commands make; `after` is run outside of its mounts."""
        project = more.pop("project", f"{self.base}/disk")
        given = {
            "world": [f"mkdir -p {self.base}/disk && mount -t tmpfs disk {self.base}/disk", *world],
            "project": project,
            "run": f"{project}/.autotune/runs/20260101-000000-abcdef",
            "script": script,
            "after": after,
            "environ": more.pop("environ", {}),
            "limit": more.pop("limit", 0),
        }
        words = ["unshare", "-m", sys.executable, "-c", DRIVER, json.dumps(given)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2])
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        if result["layer"] != "kernel" and not more.get("may_refuse"):
            pytest.skip(f"this machine has no kernel layer: {result['why']}")
        return result


@pytest.fixture
def worlds(tmp_path, monkeypatch):
    for name, variable in (("home", "HOME"), ("temporary", "TMPDIR"), ("cache", "XDG_CACHE_HOME")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    return Worlds(tmp_path)


SAVES = """
import os, shutil
for name in ("overwritten", "appended", "replaced", "removed"):
    assert os.path.getsize(name) == 70 << 20, name
open("overwritten", "r+b").write(b"new")
open("appended", "ab").write(b"new")
open("other", "wb").write(b"new")
os.replace("other", "replaced")
os.remove("removed")
shutil.rmtree("folder")
os.rename("folder2", "folder3")
os.chmod("replaced", 0o600)
print(sorted(os.listdir(".")))
"""
NAMES = ("overwritten", "appended", "replaced", "removed")


def test_a_project_at_the_root_of_a_mount_is_saved_to_as_without_autotune(worlds):
    disk = worlds.base / "disk"
    files = " ".join(f"{disk}/{name}" for name in NAMES)
    world = [f"for f in {files}; do truncate -s 70M $f; done", f"mkdir -p {disk}/folder/x {disk}/folder2/x"]
    result = worlds.run(world, SAVES, after=f"cd {disk} && stat -c '%n %s' {' '.join(NAMES)} folder/x folder2/x; ls -A")
    assert (result["code"], result["error"]) == (0, "")
    names = ["appended", "folder3", "overwritten", "replaced"]
    assert result["out"] == f"{['.autotune', *names]}\n", "its own scratch is hidden"
    lines = result["after"].splitlines()
    assert lines[:4] == [f"{name} {70 << 20}" for name in NAMES]
    assert sorted(lines[6:]) == sorted([".autotune", *NAMES, "folder", "folder2"])
    assert result["escaped"] == result["gaps"] == []
    assert {(str(disk), "write"), (str(disk), "delete")} <= {tuple(row) for row in result["redirected"]}
    assert [path for path in result["scratch"] if path.startswith(str(disk))], "on the file system of the project"


def test_a_mount_below_a_read_only_root_is_covered(worlds):
    disk, other = worlds.base / "disk", worlds.base / "other"
    world = [
        f"mkdir {other} {disk}/project && mount -t tmpfs other {other} && echo old > {other}/file",
        "mount -o remount,bind,ro /",
    ]
    script = f"open({str(other / 'file')!r}, 'w').write('new'); print(open({str(other / 'file')!r}).read())"
    result = worlds.run(world, script, after=f"cat {other}/file", project=f"{disk}/project")
    assert (result["out"], result["after"], result["gaps"]) == ("new\n", "old\n", [])


def test_a_writable_mount_without_protected_folders_gets_no_scratch_of_its_own(worlds):
    disk, other = worlds.base / "disk", worlds.base / "other"
    idle = worlds.base / "idle"
    world = [f"mkdir {folder} && mount -t tmpfs x {folder}" for folder in (other, idle)]
    result = worlds.run(world, f"open({str(other / 'file')!r}, 'w'); import os; print(os.listdir({str(other)!r}))")
    assert result["out"] == "['file']\n"
    assert result["other_devices"] == [str(other)], "not that of a mount that was left alone"
    assert not [path for path in result["scratch"] if path.startswith(str(other))]
    assert [str(other / "file"), "write"] in result["redirected"]
    assert [path for path in result["scratch"] if path.startswith(str(disk))]


@pytest.fixture
def deep(worlds):
    """A folder and the commands that mount an overlay over an overlay there: over that the kernel makes no other."""
    folder = worlds.base / "deep"
    world = [
        f"mkdir {folder} && mount -t tmpfs deep {folder}",
        f"cd {folder} && mkdir a u w u2 w2 one two && mount -t overlay x -o lowerdir=a,upperdir=u,workdir=w one",
        f"cd {folder} && mount -t overlay x -o lowerdir=one,upperdir=u2,workdir=w2 two",
    ]
    return folder / "two", world


def test_a_mount_that_refuses_an_overlay_stays_real_and_is_told(worlds, deep):
    folder, world = deep
    script = f"open('file', 'w'); open({str(folder / 'real')!r}, 'w')"
    result = worlds.run(world, script, after=f"ls {folder}; ls {worlds.base}/disk")
    assert (result["code"], result["failure"], result["escaped"]) == (0, None, [])
    assert result["gaps"] == [str(folder)]
    assert result["after"] == "real\n"


def test_a_refused_overlay_over_the_project_refuses_the_layer(worlds, deep):
    folder, world = deep
    result = worlds.run(world, "print('ran')", project=str(folder))
    assert (result["code"], result["out"]) == (71, "")
    assert result["failure"][0].startswith("overlay ")
    assert result["failure"][0].endswith(str(folder))


def test_few_descriptors_are_enough(worlds):
    disk = worlds.base / "disk"
    world = [f"mkdir {disk}/project && for i in $(seq 40); do mkdir {disk}/$i && mount -t tmpfs x {disk}/$i; done"]
    script = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0]); open('file', 'w')"
    result = worlds.run(world, script, project=f"{disk}/project", limit=64)
    assert (result["failure"], result["out"]) == (None, "64\n")


def test_caches_inside_the_project_stay_real(worlds):
    disk = worlds.base / "disk"
    script = "import os; open('hf/model', 'w'); open('tmp/t', 'w'); open('out', 'w'); os.makedirs('.cache/x')"
    environ = {"HF_HOME": f"{disk}/hf", "TORCH_HOME": f"{disk}/tmp", "XDG_CACHE_HOME": f"{disk}/.cache"}
    result = worlds.run(
        [f"mkdir {disk}/.cache {disk}/tmp"], script, environ=environ, after=f"cd {disk} && find .cache hf tmp out"
    )
    assert (result["code"], result["error"]) == (0, "")
    assert result["after"].split() == [".cache", ".cache/x", "hf", "hf/model", "tmp", "tmp/t"]


def test_a_mounted_file_shows_through_read_only(worlds):
    hosts, source = worlds.base / "disk" / "hosts", worlds.base / "disk" / "source"
    world = [f"echo inner > {source} && touch {hosts} && mount --bind {source} {hosts}"]
    script = """
print(open("hosts").read())
try:
    open("hosts", "w")
except OSError as error:
    print(error.strerror)
"""
    result = worlds.run(world, script, after=f"cat {hosts}")
    assert (result["out"], result["after"]) == ("inner\n\nRead-only file system\n", "inner\n")


def test_changing_mode_and_name_of_a_file_copies_no_data(worlds):
    project = worlds.base / "disk" / "project"
    script = """
import os
before = os.statvfs(".")
os.chmod("data", 0o600)
os.rename("data", "renamed")
print((before.f_bfree - os.statvfs(".").f_bfree) * before.f_bsize < 1 << 20, len(open("renamed", "rb").read()))
"""
    world = [f"mkdir {project} && head -c 30M /dev/zero > {project}/data"]
    result = worlds.run(world, script, project=str(project), after=f"stat -c '%a %s' {project}/data")
    assert (result["out"], result["after"]) == (f"True {30 << 20}\n", f"644 {30 << 20}\n")
