from __future__ import annotations

import json
import os

import pytest

from autotune.collect import artefacts
from autotune.collect.artefacts import mark_last, new_run, project_root, read_json, resolve, runs, write_json
from autotune.errors import UsageError


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def finished(root, now):
    run = new_run(root, now)
    write_json(run / "run.json", {"outcome": "completed"})
    return run


@pytest.mark.parametrize("mark", [".git", "pyproject.toml"])
def test_project_root_is_the_nearest_marked_folder(tmp_path, mark):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    assert project_root(tmp_path / "a" / "b") == tmp_path
    (tmp_path / "a" / mark).mkdir()
    assert project_root(tmp_path / "a" / "b" / "c") == tmp_path / "a"
    assert project_root(tmp_path) == tmp_path


def test_without_a_mark_the_project_is_where_we_are(tmp_path, monkeypatch):
    monkeypatch.setattr(artefacts, "_ROOT_MARKS", ("no-such-mark",))
    assert project_root(tmp_path) == tmp_path


def test_runs_sort_by_time_and_are_ignored_by_git(project):
    newer, older = new_run(project, now=86400.0), new_run(project, now=0.0)
    assert older.name.startswith("19700101-000000-")
    assert newer.name.startswith("19700102-000000-")
    assert runs(project) == (older, newer)
    assert (project / ".autotune" / ".gitignore").read_text() == "*\n"


def test_runs_of_the_same_second_are_two(project):
    assert len({new_run(project, now=5.0) for _ in range(20)}) == 20


def test_a_gitignore_that_is_there_is_kept(project):
    (project / ".autotune").mkdir()
    (project / ".autotune" / ".gitignore").write_text("mine\n")
    new_run(project)
    assert (project / ".autotune" / ".gitignore").read_text() == "mine\n"


def test_a_project_that_cannot_be_written_to(project):
    (project / ".autotune").write_text("a file is in the way")
    with pytest.raises(UsageError, match="this folder cannot be made") as caught:
        new_run(project)
    assert "write" in caught.value.to_do
    assert runs(project) == ()


def test_resolve_finds_a_run_by_every_name(project):
    older, newer = finished(project, 0.0), finished(project, 86400.0)
    mark_last(older)
    assert (project / ".autotune" / "last").read_text() == older.name + "\n"
    sub = project / "src"
    sub.mkdir()
    for name in ("last", older.name, str(older), f"../.autotune/runs/{older.name}"):
        assert resolve(name, sub).resolve() == older
    assert resolve(newer.name, sub) == newer
    mark_last(newer)
    assert resolve("last", sub) == newer


def test_resolve_takes_a_recording_file(project):
    (project / "box.json").write_text("{}")
    assert resolve("box.json", project) == project / "box.json"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("20200101-000000-abcdef", "no such run"),
        ("no/such.json", "no such run"),
        ("", "no such run"),
        ("last", "no diagnosis of this project has finished"),
    ],
)
def test_resolve_names_the_newest_runs(project, name, what):
    made = [finished(project, 86400.0 * day).name for day in range(5)]
    with pytest.raises(UsageError, match=what) as caught:
        resolve(name, project)
    assert caught.value.to_do.endswith(": " + ", ".join([made[4], made[3], made[2]]))


def test_resolve_without_any_run_says_how_to_record_one(project):
    with pytest.raises(UsageError, match="no such run") as caught:
        resolve("x", project)
    assert "autotune diagnose" in caught.value.to_do


def test_resolve_refuses_a_folder_without_recording(project):
    empty = new_run(project)
    with pytest.raises(UsageError, match="no recording in this folder") as caught:
        resolve(empty.name, project)
    assert caught.value.where == str(empty)


@pytest.mark.parametrize("content", ["20200101-000000-abcdef\n", "", "\n"])
def test_resolve_last_that_was_deleted(project, content):
    finished(project, 0.0)
    (project / ".autotune" / "last").write_text(content)
    with pytest.raises(UsageError, match="the last run was deleted"):
        resolve("last", project)


@pytest.mark.parametrize(
    ("content", "what", "where"),
    [
        (b'{"a": 1,\n "b": }', "this is not JSON: Expecting value", ":2:7"),
        (b"", "this is not JSON: Expecting value", ":1:1"),
        (b'{"schema": 1, "eve', "this is not JSON: Unterminated string", ":1:15"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8", ""),
        (None, "cannot be read: No such file or directory", ""),
    ],
)
def test_read_json_names_the_place(tmp_path, content, what, where):
    file = tmp_path / "r.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=what) as caught:
        read_json(file)
    assert caught.value.where == f"{file}{where}"
    assert caught.value.to_do


def test_write_json_reads_back(tmp_path):
    data = {"text": "Größe", "list": [1, None, True], "nested": {"a": 1.5}}
    write_json(tmp_path / "x.json", data)
    assert read_json(tmp_path / "x.json") == data


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    file = tmp_path / "x.json"
    write_json(file, {"old": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(file, {"new": float("nan")})

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(artefacts.Path, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        write_json(file, {"new": 1})
    assert json.loads(file.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["x.json"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_are_as_readable_as_the_users_others(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_json(tmp_path / "x.json", {})
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "x.json").stat().st_mode & 0o777 == mode


def test_a_link_of_a_project_does_not_choose_where_its_runs_are(tmp_path) -> None:
    clone, outside, elsewhere = (tmp_path / name for name in ("clone", "outside", "elsewhere"))
    for folder in (clone, outside, elsewhere):
        (folder / ".git").mkdir(parents=True)
    (outside / "train.py").touch()
    (clone / "train.py").symlink_to(outside / "train.py")
    assert artefacts.command_root(clone, clone / "train.py") == clone
    assert artefacts.command_root(elsewhere, outside / "train.py") == outside


@pytest.mark.parametrize(
    ("manifest", "run"),
    [
        ({"tune": {"study": "s", "diagnosed": "20261122-a"}}, "20261122-a"),
        ({"tune": {"study": "s"}}, ""),
        ({"run": {}}, ""),
        (["tune"], ""),
        (None, ""),
    ],
    ids=["search", "without a diagnosis", "diagnosis", "no object", "no manifest"],
)
def test_the_run_of_a_search_names_its_diagnosis(tmp_path, manifest, run) -> None:
    if manifest is not None:
        (tmp_path / artefacts.MANIFEST).write_text(json.dumps(manifest))
    assert artefacts.diagnosed_by(tmp_path) == run
