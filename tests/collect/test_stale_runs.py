from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autotune.collect.artefacts import new_run, write_json
from autotune.collect.stale_runs import (
    SCRATCH_LIST,
    SOCKETS,
    is_dead,
    is_scratch,
    make_sockets,
    remove_abandoned,
    remove_leftovers,
    remove_scratch,
)
from autotune.machine import identity


@pytest.fixture(scope="module")
def ended():
    """Identity of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    who = identity(child.pid)
    child.communicate(b"\n")
    return who


@pytest.fixture
def run(tmp_path):
    """A run folder with a filled scratch folder beside `out`, which is listed."""
    made = new_run(tmp_path)
    scratch = tmp_path / f"out.autotune-scratch-{made.name}"
    (scratch / "checkpoint-1").mkdir(parents=True)
    (scratch / "checkpoint-1" / "model.bin").write_bytes(b"x")
    (made / SCRATCH_LIST).write_text(f"2049 {scratch}\n")
    return made


def scratch_of(run):
    return run.parents[2] / f"out.autotune-scratch-{run.name}"


def test_a_dead_runs_scratch_is_deleted_and_nothing_else(run, ended):
    write_json(run / "run.json", ended)
    keep = run.parents[2] / "out"
    keep.mkdir()
    assert remove_leftovers(run.parents[2]) == (scratch_of(run),)
    assert not scratch_of(run).exists()
    assert not (run / SCRATCH_LIST).exists()
    assert keep.is_dir()
    assert (run / "run.json").exists()
    assert remove_leftovers(run.parents[2]) == ()


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param("ours", id="alive"),
        pytest.param("elsewhere", id="other host"),
        pytest.param("no host", id="incomplete"),
        pytest.param(None, id="no run.json"),
        pytest.param("[]", id="no object"),
        pytest.param("{broken", id="broken"),
    ],
)
def test_a_run_that_may_live_is_left_alone(run, ended, manifest):
    known = {
        "ours": identity(),
        "elsewhere": ended | {"host": "another-host"},
        "no host": {"pid": ended["pid"], "process_start": ended["process_start"]},
    }
    if manifest in known:
        write_json(run / "run.json", known[manifest])
    elif manifest is not None:
        (run / "run.json").write_text(manifest)
    assert not is_dead(run)
    assert remove_leftovers(run.parents[2]) == ()
    assert scratch_of(run).is_dir()


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("{root}/out.autotune-scratch-{id}", True),
        ("{run}/scratch", True),
        ("{run}/scratch-2049", True),
        ("{run}/scratch/upper", False),
        ("{run}/recording-1.json", False),
        ("{root}/out", False),
        ("{root}/out.autotune-scratch-20200101-000000-abcdef", False),
        ("{root}/out.autotune-scratch-{id}/checkpoint-1", False),
        ("{root}/out.autotune-scratch-{id}x", False),
        ("{root}/a/../out.autotune-scratch-{id}", False),
        ("out.autotune-scratch-{id}", False),
        ("{root}/scratch", False),
        ("{run}", False),
        ("/", False),
        ("", False),
    ],
)
def test_only_names_of_our_own_are_scratch(run, name, ours):
    folder = Path(name.format(root=run.parents[2], run=run, id=run.name))
    assert is_scratch(folder, run) is ours


@pytest.fixture
def left(tmp_path, ended):
    """The scratch that a killed run of any project left in a folder."""
    folder = tmp_path / ".autotune-scratch-20200101-000000-abcdef"
    (folder / "1" / "upper").mkdir(parents=True)
    folder.chmod(0o700)
    write_json(folder / "run.json", ended)
    return folder


def test_scratch_of_dead_runs_of_other_projects_is_deleted(left, tmp_path):
    (tmp_path / "other").mkdir()
    assert remove_abandoned(tmp_path) == (left,)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize("case", ["alive", "open to others", "another user's", "no name", "a link", "no process"])
def test_scratch_that_may_be_in_use_or_anothers_stays(left, tmp_path, monkeypatch, case):
    if case == "alive":
        write_json(left / "run.json", identity())
    elif case == "open to others":
        left.chmod(0o770)
    elif case == "another user's":
        monkeypatch.setattr("autotune.collect.stale_runs.os.geteuid", lambda: left.stat().st_uid + 1)
    elif case == "no name":
        left.rename(tmp_path / "precious")
    elif case == "a link":
        left.rename(tmp_path / "precious")
        left.symlink_to(tmp_path / "precious")
    else:
        (left / "run.json").unlink()
    assert remove_abandoned(tmp_path) == ()
    assert [path for path in tmp_path.iterdir() if (path / "1" / "upper").is_dir()]


@pytest.mark.parametrize("name", ["caf\udce9", "a\u2028b", "a\x0bb", "a\x85b"])
def test_scratch_is_found_again_below_any_name(tmp_path, name):
    run = new_run(tmp_path)
    scratch = tmp_path / name / f".autotune-scratch-{run.name}"
    scratch.mkdir(parents=True)
    (run / SCRATCH_LIST).write_text(f"1 {scratch}\n", encoding="utf-8", errors="surrogateescape")
    assert remove_scratch(run) == (scratch,)
    assert not (run / SCRATCH_LIST).exists()


def test_no_permission_is_changed_through_a_link(left, tmp_path):
    precious = tmp_path / "precious" / "work" / "work"
    precious.mkdir(parents=True)
    precious.chmod(0o500)
    (left / "2").symlink_to(tmp_path / "precious")
    assert remove_abandoned(tmp_path) == (left,)
    assert precious.stat().st_mode & 0o777 == 0o500


def test_a_link_is_never_followed(run, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "model.bin").write_bytes(b"x")
    link = tmp_path / f"link.autotune-scratch-{run.name}"
    link.symlink_to(precious)
    (scratch_of(run) / "inner").symlink_to(precious)
    with (run / SCRATCH_LIST).open("a") as file:
        file.write(f"2049 {link}\n2049 {precious}\n")
    assert not is_scratch(link, run)
    assert remove_scratch(run) == (scratch_of(run),)
    assert not (run / SCRATCH_LIST).exists()
    assert (precious / "model.bin").exists()
    assert link.is_symlink()


def test_a_folder_that_cannot_be_deleted_stays_listed(run, monkeypatch):
    monkeypatch.setattr("autotune.collect.stale_runs.shutil.rmtree", lambda *_, **__: None)
    assert remove_scratch(run) == ()
    assert (run / SCRATCH_LIST).exists()


def test_a_run_without_a_list_has_nothing_to_remove(tmp_path):
    assert remove_scratch(new_run(tmp_path)) == ()
    assert remove_leftovers(tmp_path / "no-project") == ()


def test_a_dead_runs_half_saved_state_is_deleted_and_a_living_ones_is_not(run, ended):
    state, recording = run / "serialised-17", run / "recording-17.json"
    for path in (state, recording):
        path.write_bytes(b"x")
    write_json(run / "run.json", identity())
    remove_leftovers(run.parents[2])
    assert state.exists()
    write_json(run / "run.json", ended)
    remove_leftovers(run.parents[2])
    assert not state.exists()
    assert recording.exists()


@pytest.fixture
def sockets(tmp_path, monkeypatch):
    """A run folder, and the folder of its sockets with one in it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = new_run(tmp_path)
    make_sockets(made)
    folder = Path((made / SOCKETS).read_text())
    (folder / "listener-a").touch()
    return made, folder


def test_a_dead_runs_sockets_are_deleted(sockets, ended):
    run, folder = sockets
    assert folder.parent == run.parents[2]
    assert folder.stat().st_mode & 0o777 == 0o700
    write_json(run / "run.json", ended)
    assert remove_leftovers(run.parents[2]) == (folder,)
    assert not folder.exists()
    assert not (run / SOCKETS).exists()


@pytest.mark.parametrize("name", ["{root}/precious", "atmp-1", "{root}/atmp-link", "{root}", "", "/"])
def test_only_a_folder_named_as_ours_holds_sockets(sockets, tmp_path, name, monkeypatch):
    run, folder = sockets
    monkeypatch.chdir(tmp_path)
    for one in ("precious", "atmp-1"):
        (tmp_path / one).mkdir()
        (tmp_path / one / "model.bin").write_bytes(b"x")
    (tmp_path / "atmp-link").symlink_to(tmp_path / "precious")
    (run / SOCKETS).write_text(name.format(root=tmp_path))
    assert remove_scratch(run) == ()
    assert (tmp_path / "precious" / "model.bin").exists()
    assert (tmp_path / "atmp-1" / "model.bin").exists()
    assert folder.is_dir()
