"""A script without torch that writes in every way, under the kernel layer and under hooks."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from autotune.collect import isolation, project_snapshot
from autotune.collect.isolation import HOOKS, KERNEL
from autotune.collect.overlay_plan import NotPossibleError
from autotune.collect.stale_runs import remove_scratch
from autotune.errors import ScriptError

WRITES = """
import ctypes, os, shutil, socket, sqlite3, subprocess, sys
open("opened.txt", "w").write("x")
os.system("echo x > shell.txt")
ctypes.CDLL(None).rename(b"old.txt", b"renamed.txt")
base = sqlite3.connect(":memory:")
base.execute("attach 'attached.db' as a")
base.execute("create table a.t(x)")
base.commit()
subprocess.run([sys.executable, "-I", "-c", "open('child.txt', 'w')"], env={})
os.rename("folder", "moved")
os.rename("folder2", "../beside/moved2")
shutil.rmtree("moved")
os.remove("deleted.txt")
print("SEES", sorted(os.listdir(".")), os.getcwd(), os.path.exists("../beside/moved2/inner"))
socket.socket(socket.AF_UNIX).bind("bound")
open(sys.argv[1], "w").write("x")
"""


def tree(folder):
    return {path: path.lstat().st_mode for path in folder.rglob("*") if ".autotune" not in path.parts}


@pytest.fixture(scope="module")
def runs(place_in, tmp_path_factory):
    """{layer: (the place, what was measured, the tree before)}; two starts for all tests here."""
    done = {}
    for layer in (KERNEL, HOOKS):
        base = tmp_path_factory.mktemp(layer)
        place = place_in(base / "project")
        for name in ("folder/inner", "folder2/inner", "../beside"):
            (place.cwd / name).mkdir(parents=True)
        for name in ("old.txt", "deleted.txt", "kept.txt"):
            place.write(name, "old")
        place.write("train.py", WRITES)
        before = tree(place.cwd)
        # "beside" is a temporary file, and real: a rename there crosses from an overlay to what stays real.
        environ = {isolation.SWITCH: HOOKS if layer == HOOKS else ""}
        free = Path(tempfile.gettempdir()) / f"free-{base.name}-{os.getpid()}"
        measured = place.measure("train.py", str(free), environ=environ)
        done[layer] = (base, measured, before, free.exists())
        free.unlink(missing_ok=True)
    return done


@pytest.fixture
def by_kernel(runs):
    base, measured, before, _ = runs[KERNEL]
    if measured.collected.effects.layer != KERNEL:
        pytest.skip(f"this machine has no kernel layer: {measured.collected.effects.why}")
    return base, measured, before


def test_the_kernel_layer_holds_every_write(by_kernel):
    base, measured, before = by_kernel
    assert tree(base / "project") == before
    assert measured.collected.effects.escaped == ()
    assert measured.collected.exit_code == 0


def test_the_script_sees_what_it_did(by_kernel):
    base, measured, _ = by_kernel
    (line,) = [line for line in measured.out.splitlines() if line.startswith("SEES")]
    names = ["attached.db", "child.txt", "kept.txt", "opened.txt", "renamed.txt", "shell.txt"]
    assert line == f"SEES {['.autotune', *names, 'train.py']} {base / 'project'} True"


def test_what_the_kernel_layer_held_is_told(by_kernel):
    base, measured, _ = by_kernel
    rows = {(row.path, row.kind) for row in measured.collected.effects.redirected}
    assert {(str(base / "project"), "write"), (str(base / "project"), "delete")} <= rows


def test_temporary_files_stay_real(runs):
    assert [runs[layer][3] for layer in (KERNEL, HOOKS)] == [True, True]


def test_what_passes_the_hooks_is_told(runs):
    base, measured, before, _ = runs[HOOKS]
    effects = measured.collected.effects
    after = tree(base / "project")
    real = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert (effects.layer, effects.why) == (HOOKS, f"{isolation.SWITCH}=hooks is set")
    assert {path.name for path in real} >= {"shell.txt", "renamed.txt", "child.txt", "attached.db"}
    assert set(map(str, real)) == set(effects.escaped)
    assert not {"opened.txt", "deleted.txt", "folder"} & {path.name for path in real}


def test_no_scratch_is_left(runs):
    for layer in (KERNEL, HOOKS):
        folder = runs[layer][1].collected.folder
        assert not (folder / "scratch-folders").exists()
        assert not list(Path("/").glob(f".autotune-scratch-{folder.name}"))


@pytest.mark.parametrize(
    ("environ", "exempt"),
    [
        ({}, ["/home/me/.cache"]),
        ({"XDG_CACHE_HOME": "/cache"}, ["/cache"]),
        ({"HF_HOME": "/hf", "TORCH_HOME": ""}, ["/home/me/.cache", "/hf"]),
        *(({name: "/of/its/own"}, ["/home/me/.cache", "/of/its/own"]) for name in isolation.CACHES),
    ],
)
def test_caches_and_the_run_folder_may_be_written(environ, exempt):
    run = Path("/home/me/project/.autotune/runs/1")
    found = isolation._exempt(run, {"HOME": "/home/me", **environ})
    assert set(found) == {
        *(str(run), os.path.realpath(tempfile.gettempdir()), "/home/me/.triton", "/home/me/.nv", *exempt),
        os.path.realpath(isolation._PROBE_CACHE),
    }


@pytest.mark.parametrize(
    ("user", "group", "mode", "is_refused"),
    [(0, 0, 0o644, False), (0, 7, 0o664, True), (7, 0, 0o666, True), (7, 7, 0o644, False), (0, 7, 0o600, True)],
)
def test_without_privileges_files_of_others_that_can_be_written_need_the_hooks(
    tmp_path, monkeypatch, user, group, mode, is_refused
):
    about = os.stat(tmp_path)
    looks = {str(tmp_path / "file"): ()}
    own = os.stat_result((0o100644, *about[1:4], 0, 0, *about[6:]))
    file = os.stat_result((0o100000 | mode, *about[1:4], user, group, *about[6:]))
    monkeypatch.setattr(isolation.os, "lstat", lambda path: file if str(path).endswith("file") else own)
    monkeypatch.setattr(isolation.os, "geteuid", lambda: 0)
    monkeypatch.setattr(isolation.os, "getegid", lambda: 0)
    before = project_snapshot.Snapshot((str(tmp_path),), looks, is_whole=True)
    if is_refused:
        with pytest.raises(NotPossibleError, match="another user or group"):
            isolation._check_owners([str(tmp_path)], before)
    else:
        isolation._check_owners([str(tmp_path)], before)


def test_root_without_the_right_to_mount_gets_hooks(tmp_path, monkeypatch):
    monkeypatch.setattr(isolation, "_can_mount", lambda: False)
    monkeypatch.setattr(isolation.os, "geteuid", lambda: 0)
    held = isolation.choose(tmp_path, [tmp_path], {"HOME": str(tmp_path)})
    if isolation.sys.platform == "linux":
        assert (held.layer, held.why[:26]) == (HOOKS, "root has no CAP_SYS_ADMIN ")


def test_a_socket_in_a_private_folder_is_left_out(tmp_path, monkeypatch):
    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", path)

    (tmp_path / "unix").write_text(f"Num\n0: 2 0 00010000 0001 01 1 {tmp_path}/s\n")
    monkeypatch.setattr(isolation, "Path", lambda path: tmp_path / "unix" if path == "/proc/net/unix" else Path(path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert isolation._sockets() == (str(tmp_path / "s"),)
        monkeypatch.setattr(isolation.os, "stat", refuse)
        assert isolation._sockets() == ()


def test_caches_that_the_environment_names_are_made_inside_the_project_too(tmp_path):
    run = tmp_path / ".autotune" / "runs" / "20260101-000000-abcdef"
    run.mkdir(parents=True)
    environ = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf")}
    held = isolation.choose(run, [tmp_path], environ)
    remove_scratch(run)
    if held.layer == KERNEL:
        assert sorted(path.name for path in tmp_path.iterdir()) == [".autotune", "hf"]
    assert str(tmp_path / "hf") in held.settings["exempt"]


@pytest.mark.parametrize(
    ("text", "failed", "refused"),
    [
        ('{"refused": ["/a", "/b"]}', None, ("/a", "/b")),
        ('{"step": "overlay /", "errno": 1, "text": "no"}', ("overlay /", 1, "no"), ()),
        ("", None, ()),
        ("[]", None, ()),
    ],
)
def test_what_the_launcher_tells(tmp_path, text, failed, refused):
    (tmp_path / isolation.FAILURE).write_text(text)
    assert (isolation.failure(tmp_path), isolation._refused(tmp_path)) == (failed, refused)


def test_a_refusal_of_the_kernel_falls_back_to_hooks(place_in, tmp_path, monkeypatch):
    monkeypatch.setattr(isolation, "_LAUNCHER", tmp_path / "launcher.py")
    (tmp_path / "launcher.py").write_text("import sys; open(sys.argv[2], 'w').write(sys.argv[3]); sys.exit(71)")
    row = '{"step": "overlay /", "errno": 1, "text": "no"}'
    words = isolation.Isolation.words
    monkeypatch.setattr(isolation.Isolation, "words", lambda *given: (found := words(*given)) and (*found, row))
    place = place_in(tmp_path / "project")
    place.write("train.py", "print('ran')")
    measured = place.measure("train.py")
    effects = measured.collected.effects
    assert (effects.layer, measured.out) == (HOOKS, "ran\n")
    if os.path.exists("/proc/self/ns/mnt"):
        assert effects.why == "the kernel refused it (overlay /: no)"


def test_a_program_that_cannot_be_started_is_the_commands_fault(place_in, tmp_path):
    place = place_in(tmp_path / "project")
    place.write("program", "#!/not/there\n").chmod(0o755)
    with pytest.raises(ScriptError, match="it cannot be started: No such file"):
        place.measure("./program")


def test_what_an_earlier_start_changed_is_named_too(place_in, tmp_path):
    place = place_in(tmp_path / "project")
    place.write("data.txt", "kept")
    place.write("go.sh", "echo damaged >> data.txt\nexec python -I train.py\n")
    place.write("train.py", "import time\ntime.sleep(3)\nprint('ran')")
    measured = place.measure("go.sh", environ={isolation.SWITCH: HOOKS})
    assert measured.out == "ran\n"
    assert str(tmp_path / "project" / "data.txt") in measured.collected.effects.escaped


def test_side_effects_of_two_starts_are_added():
    first = isolation.SideEffects(KERNEL, "", escaped=("a", "b"), ended=("sleep",), is_whole=False)
    second = isolation.SideEffects(HOOKS, "no", escaped=("b", "c"))
    both = isolation.added(first, second)
    assert (both.layer, both.why, both.escaped, both.ended) == (HOOKS, "no", ("a", "b", "c"), ("sleep",))
    assert not both.is_whole
