"""Findings on lines that differ from a commit, in repositories that are made for the test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from autotune.check import changed
from autotune.check.changed import changed_lines
from autotune.check.check import CheckOptions, check
from autotune.errors import UsageError

SCRIPT = """\
import gc
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(list(torch.randn(64, 4)), batch_size=8)
for batch in loader:
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    gc.collect()
"""


def git(folder, *words):
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True
    )


@pytest.fixture
def project(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def found(project, ref="HEAD"):
    checked = check(CheckOptions(paths=(Path(),), select=("SY006",), changed=ref), cwd=project)
    return [(each.location.file, each.location.line) for each in checked.findings]


def test_what_is_as_it_was_is_not_reported(project):
    assert found(project) == []
    checked = check(CheckOptions(paths=(Path(),), select=("SY006",), changed="HEAD"), cwd=project)
    assert {each.by for bundle in checked.bundles for each in bundle.silenced} == {"unchanged"}


def test_a_line_that_moved_is_as_it_was(project):
    (project / "train.py").write_text("import os\n" + SCRIPT)
    assert found(project) == []


def test_a_line_that_changed_is_reported(project):
    (project / "train.py").write_text(SCRIPT.replace("    gc.collect()", "    gc.collect(2)"))
    assert found(project) == [("train.py", 12)]


def test_a_new_file_is_reported(project):
    (project / "other.py").write_text(SCRIPT)
    assert found(project) == [("other.py", 12)]


def test_a_branch_is_compared_with_where_it_began(project):
    git(project, "switch", "-qc", "feature")
    git(project, "switch", "-q", "main")
    (project / "train.py").write_text(SCRIPT.replace("gc.collect()", "pass"))
    git(project, "commit", "-qam", "two")
    git(project, "switch", "-q", "feature")
    assert found(project, "main") == []


def test_a_project_below_the_root_of_its_repository(project):
    inner = project / "inner"
    inner.mkdir()
    (inner / "train.py").write_text(SCRIPT)
    git(project, "add", ".")
    git(project, "commit", "-qm", "two")
    assert found(inner) == []


@pytest.mark.parametrize("ref", ["nowhere", "--all", "HEAD:train.py", ""])
def test_a_name_of_no_commit_is_an_error(project, ref):
    with pytest.raises(UsageError, match="no commit"):
        found(project, ref)


def test_outside_of_a_repository_nothing_can_be_compared(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    with pytest.raises(UsageError, match="no commit"):
        found(tmp_path)


def test_neither_filters_nor_programs_of_a_repository_run(project, tmp_path_factory):
    marker = tmp_path_factory.mktemp("out") / "ran"
    (project / ".gitattributes").write_text("*.py filter=f diff=d\n")
    for key in ("filter.f.clean", "filter.f.smudge", "diff.d.textconv", "diff.external", "core.fsmonitor"):
        git(project, "config", key, f"touch {marker}; cat")
    (project / "train.py").write_text(SCRIPT + "\n")
    assert found(project) == []
    assert not marker.exists()


def test_what_a_partial_clone_lacks_is_not_fetched(project, tmp_path_factory, monkeypatch):
    """Its configuration names the program that fetches; an older git knows no GIT_NO_LAZY_FETCH."""
    marker = tmp_path_factory.mktemp("out") / "ran"
    (project / "train.py").write_text(SCRIPT + "\n")
    for blob in (project / ".git" / "objects").glob("??/*"):
        kind = subprocess.run(["git", "cat-file", "-t", blob.parent.name + blob.name], cwd=project, capture_output=True)
        if kind.stdout.strip() == b"blob":
            blob.unlink()
    git(project, "config", "remote.origin.url", f"ext::touch {marker}")
    git(project, "config", "remote.origin.promisor", "true")
    git(project, "config", "extensions.partialClone", "origin")
    git(project, "config", "protocol.ext.allow", "always")
    monkeypatch.delitem(changed.ENVIRON, "GIT_NO_LAZY_FETCH")
    assert found(project) == [("train.py", 12)]  # nothing to compare with: all counts as changed
    assert not marker.exists()
    monkeypatch.delitem(changed.ENVIRON, "GIT_ALLOW_PROTOCOL")
    found(project)
    assert marker.exists()


def test_without_a_common_commit_nothing_is_compared(project):
    git(project, "switch", "-q", "--orphan", "other")
    (project / "train.py").write_text(SCRIPT)
    git(project, "add", ".")
    git(project, "commit", "-qm", "other")
    with pytest.raises(UsageError, match="no common one"):
        found(project, "main")


def test_the_environment_of_a_hook_is_not_asked(project, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("elsewhere")))
    assert found(project) == []


def test_many_lines_that_differ_are_not_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(changed, "MOST_LINES", 2)
    assert sorted(changed._lines_that_differ(list("abcdef"), list("axyzdef"))) == [2, 3, 4, 5]
    assert sorted(changed._lines_that_differ(list("abcdef"), list("axcdef"))) == [2]


@pytest.mark.parametrize(
    ("now", "lines"),
    [
        (["a", "b", "c"], set()),
        (["a", "x", "c"], {2}),
        (["a", "c"], {2}),
        (["a", "b", "c", "d", "e"], {4, 5}),
        (["a\r", "b\r", "c\r"], set()),
    ],
    ids=["nothing", "replaced", "deleted: the line that follows", "added", "other line ends"],
)
def test_the_lines_that_differ(tmp_path, now, lines):
    (tmp_path / "a.py").write_bytes(b"a\nb\nc\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    (tmp_path / "a.py").write_bytes("".join(f"{line}\n" for line in now).encode())
    assert changed_lines("HEAD", tmp_path, "a.py") == lines
