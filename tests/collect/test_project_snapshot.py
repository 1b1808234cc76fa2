from __future__ import annotations

import os

import pytest

from autotune.collect import project_snapshot


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("one")
    (tmp_path / "a" / "link").symlink_to("b")
    (tmp_path / ".autotune").mkdir()
    return tmp_path


def shrunk(path):
    times = os.stat(path)
    path.write_text("two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


CHANGES = {
    "nothing": (lambda root: None, ()),
    "our own folder": (lambda root: (root / ".autotune" / "x").touch(), ()),
    "read": (lambda root: (root / "a/b/file").read_text(), ()),
    "written": (lambda root: (root / "a/b/file").write_text("other"), ("a/b/file",)),
    "written with its old time": (lambda root: shrunk(root / "a/b/file"), ("a/b/file",)),
    "made": (lambda root: (root / "a/new").touch(), ("a/new",)),
    "a new folder with files": (lambda root: [(root / "n/m").mkdir(parents=True), (root / "n/m/x").touch()], ("n",)),
    "deleted": (lambda root: (root / "a/b/file").unlink(), ("a/b/file",)),
    "renamed": (lambda root: (root / "a/b/file").rename(root / "a/moved"), ("a/b/file", "a/moved")),
    "a mode": (lambda root: (root / "a/b").chmod(0o700), ("a/b",)),
    "a link": (lambda root: [(root / "a/link").unlink(), (root / "a/link").symlink_to("/")], ("a/link",)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_is_named(tree, name):
    change, expected = CHANGES[name]
    before = project_snapshot.snapshot([str(tree)])
    change(tree)
    assert project_snapshot.changed(before) == tuple(str(tree / path) for path in expected)
    assert before.is_whole


def test_what_a_commit_writes_is_no_change_and_a_hook_is(tree):
    (tree / ".git" / "objects").mkdir(parents=True)
    before = project_snapshot.snapshot([str(tree)])
    (tree / ".git" / "objects" / "0b").touch()
    (tree / ".git" / "hook").touch()
    assert project_snapshot.changed(before) == (str(tree / ".git" / "hook"),)


def test_of_many_files_the_nearest_are_looked_at(tree, monkeypatch):
    monkeypatch.setattr(project_snapshot, "MOST_FILES", 3)
    before = project_snapshot.snapshot([str(tree)])
    assert not before.is_whole
    (tree / "a" / "b" / "file").write_text("beyond the limit")
    assert project_snapshot.changed(before) == ()
    (tree / "a" / "link").unlink()
    assert project_snapshot.changed(before) == (str(tree / "a" / "link"),)


def test_a_folder_in_a_folder_is_looked_at_once(tree):
    assert len(project_snapshot.snapshot([str(tree), str(tree / "a")]).looks) == len(
        project_snapshot.snapshot([str(tree)]).looks
    )


def test_our_scratch_and_what_is_left_out_are_not_looked_at(tmp_path):
    for name in (".autotune", ".autotune-scratch-1", "cache", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    before = project_snapshot.snapshot([str(tmp_path)], [str(tmp_path / "cache")])
    assert set(before.looks) == {str(tmp_path / "kept"), str(tmp_path / "kept" / "file")}
    (tmp_path / "cache" / "file").write_text("changed")
    assert project_snapshot.changed(before) == ()
