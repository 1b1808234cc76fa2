from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.verify import scratch as module
from autotune.verify.scratch import MOST_COPIED_BYTES, Mirror


@pytest.fixture
def root(tmp_path):
    """A project with code, settings, data, links and what every project has."""
    root = tmp_path / "project"
    for name, text in {
        "train.py": "import pkg.model",
        "pkg/__init__.py": "",
        "pkg/model.py": "LAYERS = 2",
        "conf/a.yaml": "workers: 0",
        "data/one.bin": "x",
        "data/labels.json": "{}",
        "deep/er/b.yaml": "lr: 1",
        ".git/HEAD": "ref",
        ".venv/pyvenv.cfg": "",
        ".venv/lib/x.py": "",
        ".autotune/last": "x",
        "pkg/__pycache__/model.pyc": "",
        "large.json": " " * (MOST_COPIED_BYTES + 1),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "conf/now.yaml").symlink_to("a.yaml")
    (root / "outside").symlink_to("/etc/hostname")
    (root / "gone").symlink_to("nowhere")
    (root / "train.py").chmod(0o755)
    return root


def made(root: Path, *edited: str) -> Mirror:
    top = root / ".autotune" / "scratch-mirror"
    return Mirror(root, top, frozenset(root / name for name in edited))


def test_everything_reads_the_same(root) -> None:
    shown = made(root, "conf/a.yaml")
    for name in ("train.py", "pkg/model.py", "conf/a.yaml", "conf/now.yaml", "data/one.bin", ".git/HEAD", "large.json"):
        assert (shown.place / name).read_bytes() == (root / name).read_bytes()
    assert not (shown.place / ".autotune").exists()
    assert not (shown.place / "pkg/__pycache__").exists()
    assert os.access(shown.place / "train.py", os.X_OK)


def test_code_and_settings_are_copies_and_the_rest_are_links(root) -> None:
    place = made(root, "conf/a.yaml").place
    copies = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and not path.is_symlink()}
    assert copies == {
        *("train.py", "pkg/__init__.py", "pkg/model.py", "conf/a.yaml", "data/labels.json", "deep/er/b.yaml"),
    }
    links = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_symlink()}
    assert links == {"data/one.bin", ".git", ".venv", "large.json", "conf/now.yaml", "outside", "gone"}


def test_a_link_to_a_file_that_changes_leads_to_the_changed_one(root) -> None:
    shown = made(root, "conf/a.yaml")
    shown.show({root / "conf/a.yaml": b"workers: 8"})
    assert (shown.place / "conf/now.yaml").read_text() == "workers: 8"
    assert (root / "conf/a.yaml").read_text() == "workers: 0"
    assert (shown.place / "outside").readlink() == Path("/etc/hostname")


def test_either_side_can_be_shown_again_and_again(root) -> None:
    shown = made(root, "train.py", "large.json")
    for text in (b"one", b"two", b"one"):
        shown.show({root / "train.py": text, root / "large.json": text})
        assert (shown.place / "train.py").read_bytes() == (shown.place / "large.json").read_bytes() == text
    assert (root / "train.py").read_text() == "import pkg.model"
    assert (root / "large.json").stat().st_size == MOST_COPIED_BYTES + 1
    assert os.access(shown.place / "train.py", os.X_OK)


def test_python_imports_from_the_mirror_even_by_resolved_paths(root) -> None:
    (root / "train.py").write_text(
        "import pathlib, pkg.model\n"
        "print(pkg.model.LAYERS, (pathlib.Path(__file__).resolve().parent / 'conf/a.yaml').read_text())\n"
    )
    shown = made(root, "pkg/model.py", "conf/a.yaml")
    shown.show({root / "pkg/model.py": b"LAYERS = 9", root / "conf/a.yaml": b"workers: 8"})
    done = subprocess.run([sys.executable, "train.py"], cwd=shown.place, capture_output=True, text=True, check=True)
    assert done.stdout == "9 workers: 8\n"


def test_a_large_folder_is_a_link_unless_a_file_in_it_changes(root, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_IN_FOLDER", 1)
    place = made(root, "conf/a.yaml").place
    assert (place / "data").is_symlink()
    assert (place / "pkg").is_symlink()
    assert not (place / "conf").is_symlink()


def test_a_large_project_is_mirrored_from_the_top_until_it_is_enough(root, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 1)
    place = made(root, "deep/er/b.yaml").place
    assert (place / "data").is_symlink()
    assert not (place / "deep/er").is_symlink()
    assert not (place / "deep/er/b.yaml").is_symlink()


def test_what_lies_beside_the_folders_above_the_project_is_where_it_was(root, tmp_path) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets/a.bin").write_text("data")
    place = made(root, "train.py").place
    assert (place / "../datasets/a.bin").resolve().read_text() == "data"
    assert (place.parent / "datasets/a.bin").read_text() == "data"
    up = "/".join([".."] * len(root.relative_to("/").parts))
    assert (place / up / "etc/hostname").exists()


def test_a_link_beside_the_project_that_leads_into_it_leads_into_the_mirror(root, tmp_path) -> None:
    (tmp_path / "current").symlink_to(root)
    (tmp_path / "loop").symlink_to("loop")
    shown = made(root, "conf/a.yaml")
    shown.show({root / "conf/a.yaml": b"workers: 8"})
    assert (shown.place / "../current/conf/a.yaml").read_text() == "workers: 8"


def test_the_root_of_all_has_nothing_beside_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Mirror, "_fill", lambda mirror, folder: iter(()))
    shown = Mirror(Path("/"), tmp_path / "top", frozenset())
    assert shown.place == tmp_path / "top"
    assert list(shown.place.iterdir()) == []


def test_a_folder_above_the_project_that_may_not_be_listed_stops_nothing(root, tmp_path, monkeypatch) -> None:
    real = os.scandir

    def scandir(path):
        if Path(path) == tmp_path:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(module.os, "scandir", scandir)
    assert (made(root, "train.py").place / "train.py").exists()


def test_words_and_variables_that_lead_into_the_project_lead_into_the_mirror(root) -> None:
    shown = made(root, "train.py")
    assert shown.mapped(f"{root}/train.py") == f"{shown.place}/train.py"
    assert shown.mapped(f"--config={root}/conf/a.yaml") == f"--config={shown.place}/conf/a.yaml"
    assert shown.mapped(f"{root}/pkg:/usr/lib:{root}") == f"{shown.place}/pkg:/usr/lib:{shown.place}"
    for other in ("train.py", "--lr=1e-4", "", "/usr/lib", f"{root}-2/train.py", "https://host/a=b"):
        assert shown.mapped(other) == other


def test_a_folder_that_may_not_be_searched_is_a_link(root, monkeypatch) -> None:
    def exists(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", exists)
    assert (made(root, "train.py").place / "data").is_symlink()


def test_an_unreadable_folder_is_a_link(root, monkeypatch) -> None:
    real = os.scandir

    def scandir(path):
        if Path(path).name == "data":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(module.os, "scandir", scandir)
    assert (made(root, "train.py").place / "data").is_symlink()
