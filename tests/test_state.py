from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from autotune import state
from autotune.errors import UsageError


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def test_the_folder_is_the_users_alone(root: Path, environ: dict[str, str]) -> None:
    assert state.known_project(root, environ) is None
    folder = state.project(root, environ)
    assert state.known_project(root, environ) == folder == state.project(root / ".", environ)
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o700 for each in (folder, folder.parent, folder.parents[1]))


def test_a_copy_and_what_comes_in_its_place_are_other_projects(root: Path, environ: dict[str, str]) -> None:
    folder = state.project(root, environ)
    copied = root.with_name("copy")
    shutil.copytree(root, copied)
    assert state.known_project(copied, environ) is None
    root.rename(root.with_name("old"))
    copied.rename(root)
    assert state.known_project(root, environ) is None
    assert state.project(root, environ) != folder


def test_what_others_may_write_is_not_relied_on(root: Path, environ: dict[str, str]) -> None:
    folder = state.project(root, environ)
    folder.chmod(0o777)
    assert state.known_project(root, environ) is None
    with pytest.raises(UsageError, match="other users can write to this folder"):
        state.project(root, environ)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_what_belongs_to_another_is_not_relied_on(root: Path, environ: dict[str, str]) -> None:
    os.chown(state.project(root, environ), 12345, -1)
    assert state.known_project(root, environ) is None


def test_where_it_cannot_be_made_the_error_says_where(root: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(UsageError, match="it cannot be made: Not a directory") as error:
        state.project(root, {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert str(tmp_path / "state") in error.value.where


def test_where_nothing_can_be_kept_the_reason_is_known(root: Path, environ: dict[str, str], tmp_path: Path) -> None:
    assert state.why_unkept(root, environ) == ""
    (tmp_path / "none").write_text("")
    assert "it cannot be made: Not a directory" in state.why_unkept(root, {"XDG_STATE_HOME": str(tmp_path / "none")})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write any folder")
def test_a_folder_of_ours_that_we_may_not_write_keeps_nothing(root: Path, environ: dict[str, str]) -> None:
    folder = state.project(root, environ)
    folder.chmod(0o500)
    assert state.why_unkept(root, environ) == f"{folder}: this folder cannot be written"


def test_a_run_is_known_by_its_name_and_its_place_on_the_disk(root: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = root / "runs" / "1"
    run.mkdir(parents=True)
    state.register_run(root, run)
    own = state.registered_runs(root)
    assert state.is_own_run(run, own)
    run.rename(root / "runs" / "2")
    (root / "runs" / "1").symlink_to("2")
    assert not state.is_own_run(root / "runs" / "1", own)
    assert not state.is_own_run(root / "runs" / "2", own)


def test_the_device_may_have_another_number_after_the_next_mount(
    root: Path, environ: dict[str, str], monkeypatch
) -> None:
    folder = state.project(root, environ)
    about = state._about(root)
    monkeypatch.setattr(state, "_about", lambda root: {**about, "device": 999})
    assert state.known_project(root, environ) == folder


def test_a_link_in_its_place_is_not_relied_on(root: Path, environ: dict[str, str], tmp_path: Path) -> None:
    state.project(root, environ)
    (tmp_path / "state" / "autotune").rename(tmp_path / "others")
    (tmp_path / "state" / "autotune").symlink_to(tmp_path / "others")
    assert state.known_project(root, environ) is None


def test_where_everybody_may_exchange_it_it_is_not_relied_on(
    root: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    folder = state.project(root, environ)
    (tmp_path / "state").chmod(0o1777)
    assert state.known_project(root, environ) == folder
    (tmp_path / "state").chmod(0o777)
    assert state.known_project(root, environ) is None
    with pytest.raises(UsageError, match="everyone can write to this folder"):
        state.project(root, environ)


def test_a_user_without_a_home_knows_no_project(root: Path, monkeypatch) -> None:
    def raising(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", raising)
    assert state.known_project(root, {}) is None
    with pytest.raises(UsageError, match="no home folder"):
        state.project(root, {})


def test_a_patch_is_known_by_its_bytes(root: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert not state.is_own_patch(root, b"a")
    state.register_patch(root, b"a")
    assert state.is_own_patch(root, b"a")
    assert not state.is_own_patch(root, b"b")


def test_a_project_whose_record_is_damaged_is_none(root: Path, environ: dict[str, str]) -> None:
    record = state.project(root, environ) / "project.json"
    assert list(state.projects(environ)) == [root]
    record.write_text('{"path": "/tmp/\\u0000x"}')
    assert list(state.projects(environ)) == []
