"""The overlay in this process: plain file operations, errors, report, and back to native."""

from __future__ import annotations

import builtins
import glob
import io
import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
from overlaid import CHECKOUT, Overlay, Project

from autotune.probe.isolate.isolated import Isolated

overlay = Overlay()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A Project with the overlay installed and cwd in it; the real files are compared at the end."""
    made = Project(tmp_path)
    monkeypatch.chdir(made.root)
    before = made.snapshot()
    # Everything else stays writable: pytest works on in this process.
    overlay.install(made.settings(exempt=["/"]))
    yield made
    overlay.uninstall()
    assert made.snapshot() == before


def rows(kind):
    return {os.path.relpath(row.path): row.bytes for row in overlay.redirected() if row.kind == kind}


def save(path, text):
    with open(path, "w") as file:
        file.write(text)


def load(path):
    with open(path) as file:
        return file.read()


def try_open(path, mode):
    with open(path, mode):
        pass


def test_an_overwritten_file_reads_back_new(project):
    save("out/ckpt.pt", "new")
    assert load("out/ckpt.pt") == "new"
    assert Path("out/ckpt.pt").read_text() == "new"
    assert os.path.getsize("out/ckpt.pt") == 3
    assert rows("write") == {"out/ckpt.pt": 3}


def test_a_log_is_appended_to_a_copy(project):
    for line in ("two\n", "three\n"):
        with open("train.log", "a") as file:
            file.write(line)
    assert load("train.log") == "one\ntwo\nthree\n"


def test_rotation(project):
    os.makedirs("out/checkpoint-20")
    save("out/checkpoint-20/model.bin", "twenty")
    shutil.rmtree("out/checkpoint-10")
    assert sorted(os.listdir("out")) == ["checkpoint-20", "ckpt.pt"]
    assert sorted(glob.glob("out/checkpoint-*")) == ["out/checkpoint-20"]
    assert [path.name for path in Path("out").glob("checkpoint-*")] == ["checkpoint-20"]
    with pytest.raises(FileNotFoundError) as raised:
        try_open("out/checkpoint-10/model.bin", "r")
    assert raised.value.filename == "out/checkpoint-10/model.bin"
    assert rows("write") == {"out/checkpoint-20/model.bin": 6}


def test_a_deleted_folder_made_again_is_empty(project):
    shutil.rmtree("out/checkpoint-10")
    os.mkdir("out/checkpoint-10")
    assert os.listdir("out/checkpoint-10") == []


def test_atomic_save(project):
    save("out/ckpt.pt.tmp", "atomic")
    os.replace("out/ckpt.pt.tmp", "out/ckpt.pt")
    assert load("out/ckpt.pt") == "atomic"
    assert not os.path.exists("out/ckpt.pt.tmp")


def test_backup_of_an_old_file_by_rename(project):
    os.rename("out/ckpt.pt", "out/ckpt.old")
    save("out/ckpt.pt", "new")
    assert (load("out/ckpt.old"), load("out/ckpt.pt")) == ("old", "new")


def test_rename_of_a_whole_old_folder(project):
    os.rename("out", "out-before")
    assert load("out-before/checkpoint-10/model.bin") == "ten"
    assert not os.path.isdir("out")


def test_moves_between_the_tree_and_a_free_folder(project, tmp_path):
    shutil.move("out/ckpt.pt", tmp_path / "free.pt")
    assert (tmp_path / "free.pt").read_bytes() == b"old"
    assert not os.path.exists("out/ckpt.pt")
    shutil.move(tmp_path / "free.pt", "out/back.pt")
    assert load("out/back.pt") == "old"
    assert not (tmp_path / "free.pt").exists()


def test_temporary_files_beside_the_outputs(project):
    with tempfile.NamedTemporaryFile("w", dir="out", delete=False) as file:
        file.write("t")
    assert file.name == str(project.root / "out" / os.path.basename(file.name))
    os.replace(file.name, "out/ckpt.pt")
    with tempfile.TemporaryDirectory(dir="out") as folder:
        save(os.path.join(folder, "x"), "x")
    assert sorted(os.listdir("out")) == ["checkpoint-10", "ckpt.pt"]
    assert load("out/ckpt.pt") == "t"


def test_pathlib(project):
    path = Path("out") / "new" / "deep"
    path.mkdir(parents=True)
    (path / "a.txt").write_text("a")
    (path / "a.txt").rename(path / "b.txt")
    (path / "link").symlink_to("b.txt")
    (path / "c").touch()
    assert (path / "link").read_text() == "a"
    assert (path / "link").resolve() == project.root / "out/new/deep/b.txt"
    assert sorted(entry.name for entry in path.iterdir()) == ["b.txt", "c", "link"]
    assert sorted(found.name for found in Path().rglob("*.txt")) == ["b.txt"]
    assert path.exists() and path.is_dir() and (path / "b.txt").is_file()
    (path / "c").unlink()
    with pytest.raises(OSError, match="not empty"):
        path.rmdir()


def test_a_write_through_a_link_to_another_folder(project, tmp_path):
    outside = tmp_path / "disk"
    outside.mkdir()
    (outside / "x").write_text("old")
    overlay.uninstall()
    overlay.install(project.settings(exempt=[]))
    os.symlink(outside, "big")
    save("big/x", "new")
    assert load(outside / "x") == "new"
    overlay.uninstall()
    assert (outside / "x").read_text() == "old"


def test_the_name_of_an_open_file_is_the_scripts(project):
    with open("out/new.txt", "w") as file:
        assert file.name == "out/new.txt"


def test_working_folder_made_by_the_script(project):
    os.mkdir("fresh")
    os.chdir("fresh")
    save("x", "1")
    assert os.getcwd() == str(project.root / "fresh")
    assert os.path.abspath("x") == str(project.root / "fresh" / "x")
    assert load("../fresh/x") == "1"
    os.chdir(project.root)


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda: try_open("out/ckpt.pt", "x"), FileExistsError),
        (lambda: os.mkdir("out"), FileExistsError),
        (lambda: try_open("nowhere/x", "w"), FileNotFoundError),
        (lambda: try_open("train.log/x", "w"), NotADirectoryError),
        (lambda: try_open("out", "w"), IsADirectoryError),
        (lambda: try_open("missing", "r+"), FileNotFoundError),
        (lambda: os.rmdir("out"), OSError),
        (lambda: os.rmdir("train.log"), NotADirectoryError),
        (lambda: os.unlink("missing"), FileNotFoundError),
        (lambda: os.unlink("out"), IsADirectoryError),
        (lambda: os.rename("missing", "x"), FileNotFoundError),
        (lambda: os.rename("out", "train.log"), NotADirectoryError),
        (lambda: os.rename("train.log", "out"), IsADirectoryError),
        (lambda: os.rename("out", "out/checkpoint-10/x"), OSError),
        (lambda: os.symlink("x", "out"), FileExistsError),
        (lambda: try_open("", "w"), FileNotFoundError),
        (lambda: try_open("out/\0", "w"), ValueError),
        (lambda: try_open("x" * 300, "w"), OSError),
    ],
)
def test_errors_are_the_native_ones(project, action, error):
    with pytest.raises(error) as ours:
        action()
    overlay.uninstall()
    with pytest.raises(error) as native:
        action()
    assert (type(ours.value), ours.value.args) == (type(native.value), native.value.args)
    assert getattr(ours.value, "filename", None) == getattr(native.value, "filename", None)
    overlay.install(project.settings(exempt=["/"]))


def test_run_folder_and_devices_are_written_for_real(project):
    save(project.run_dir / "kept", "1")
    save("/dev/null", "x")
    assert overlay.redirected() == ()


def test_of_exempt_and_protected_folders_the_deepest_decides(project):
    out = project.root / "out"
    overlay.uninstall()
    overlay.install(project.settings(exempt=["/", str(out)], protected=[str(project.root), str(out / "checkpoint-10")]))
    save("out/cached", "new")
    save("out/checkpoint-10/model.bin", "new")
    save("train.log", "new")
    assert rows("write") == {"out/checkpoint-10/model.bin": 3, "train.log": 3}
    assert (out / "cached").read_text() == "new"
    (out / "cached").unlink()


def test_scratch_lies_in_the_run_folder_and_is_registered(project):
    save("out/ckpt.pt", "new")
    scratch = project.run_dir / "scratch"
    assert (project.run_dir / "scratch-folders").read_text() == f"{os.stat(project.root).st_dev} {scratch}\n"
    assert Path(f"{scratch}/upper{project.root}/out/ckpt.pt").read_text() == "new"


@pytest.mark.skipif(
    not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat("/tmp").st_dev, reason="one device"
)
def test_another_device_gets_its_own_scratch(tmp_path, monkeypatch):
    made = Project(tmp_path)
    other = tempfile.mkdtemp(dir="/dev/shm")
    monkeypatch.setattr("autotune.probe.overlay.world.SPECIAL", ("/proc", "/sys"))
    overlay.install(made.settings(protected=[other], exempt=["/"]))
    try:
        save(f"{other}/x", "1")
        assert os.listdir(other) == ["x"]
        scratch = f"{other}/.autotune-scratch-1"
        assert (made.run_dir / "scratch-folders").read_text() == f"{os.stat(other).st_dev} {scratch}\n"
    finally:
        overlay.uninstall()
    assert os.listdir(other) == [".autotune-scratch-1"]
    shutil.rmtree(other)


def test_json_pickle_sqlite(project):
    with open("out/state.json", "w") as file:
        json.dump({"step": 1}, file)
    with open("out/state.pkl", "wb") as file:
        pickle.dump([1], file)
    for name in ("sqlite3", "sqlite3.dbapi2"):
        overlay.callbacks(Isolated())[name](sqlite3.dbapi2 if "." in name else sqlite3)
    with sqlite3.connect("out/runs.db") as base:
        base.execute("create table t (x)")
        base.execute("insert into t values (7)")
    base.close()
    again = sqlite3.connect(f"file:{project.root}/out/runs.db?mode=ro", uri=True)
    assert again.execute("select x from t").fetchall() == [(7,)]
    again.close()
    assert json.loads(load("out/state.json")) == {"step": 1}


def test_report_has_at_most_fifty_rows(project):
    for number in range(120):
        os.makedirs(f"out/run-{number}/deep")
        save(f"out/run-{number}/deep/x", "12")
    report = overlay.redirected()
    assert len(report) <= 50
    assert sum(row.bytes for row in report) == 240


def test_stand_ins_pickle_print_and_compare_as_what_they_stand_for(project):
    assert pickle.loads(pickle.dumps(os.stat)) is os.stat
    assert repr(os.stat) == "<built-in function stat>"
    assert os.stat in os.supports_dir_fd and os.utime in os.supports_follow_symlinks

    class Holder:
        look = os.stat

    assert Holder().look("out").st_size == os.stat("out").st_size


def test_uninstall_leaves_every_function_as_it_was(tmp_path):
    before = dict(vars(os)), builtins.open, io.open, dict(vars(shutil)), dict(vars(tempfile))
    overlay.install(Project(tmp_path).settings(exempt=["/"]))
    assert builtins.open is not before[1] and os.stat is not before[0]["stat"]
    overlay.uninstall()
    after = dict(vars(os)), builtins.open, io.open, dict(vars(shutil)), dict(vars(tempfile))
    assert all(one is other for one, other in zip(before[1:3], after[1:3], strict=True))
    for old, new in zip(before, after, strict=True):
        if isinstance(old, dict):
            assert [name for name in old if old[name] is not new.get(name)] == []


def test_modules_that_took_a_function_by_name_are_patched_too(project):
    assert tarfile.bltn_open is builtins.open


DENIED = """
import json, mmap, os, sys  # mmap now: the interpreter may lie in a folder that is closed to the other user
from overlaid import Overlay
os.setegid(65534)
os.seteuid(65534)
actions = {
    "overwrite": lambda: open("theirs/file", "w"),
    "append": lambda: open("theirs/file", "a"),
    "create": lambda: open("theirs/new", "w"),
    "mkdir": lambda: os.mkdir("theirs/new"),
    "unlink": lambda: os.unlink("theirs/file"),
    "rename": lambda: os.rename("theirs/file", "mine/file"),
    "chmod": lambda: os.chmod("theirs/file", 0o777),
    "utime": lambda: os.utime("theirs/file"),
    "allowed": lambda: open("mine/new", "w").close(),
}
def outcomes():
    found = {}
    for name, action in actions.items():
        try:
            found[name] = action()
        except OSError as error:
            found[name] = [error.errno, error.filename, error.filename2]
    return found
overlay = Overlay()
overlay.install(json.loads(sys.argv[1]))
ours = outcomes()
overlay.uninstall()
print(json.dumps([ours, outcomes()]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_the_user_may_not_write_is_refused_as_it_is_natively():
    base = tempfile.mkdtemp(dir="/var/tmp")  # pytest's own folders are closed to other users
    try:
        os.chmod(base, 0o755)
        made = Project(Path(base))
        for name, owner in {"theirs": 0, "mine": 65534}.items():
            (made.root / name).mkdir()
            (made.root / name / "file").write_text("x")
            os.chown(made.root / name, owner, owner)
        for folder in (made.run_dir, made.root):
            os.chown(folder, 65534, 65534)
        done = subprocess.run(
            [sys.executable, "-B", "-c", DENIED, json.dumps(made.settings())],
            cwd=made.root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(CHECKOUT), str(CHECKOUT / "tests" / "builders")])},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        ours, native = json.loads(done.stdout)
        assert ours == native
        assert [name for name, outcome in ours.items() if outcome is None] == ["allowed"]
    finally:
        shutil.rmtree(base)
