"""Bundles from the cache are those that reading anew gives, whatever has changed since."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from autotune.model.scanned import Scanned
from autotune.scan import ahead, kept_bundles, read_script, scan
from autotune.scan.library import Library
from autotune.scan.program import is_limited_alike

TRAIN = """
import argparse
from torch.utils.data import DataLoader
from data import make_dataset, WORKERS

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=8)
args = parser.parse_args()
for batch in DataLoader(make_dataset(), batch_size=args.batch_size, num_workers=WORKERS):
    loss = model(batch)
    loss.backward()
    optimizer.step()
"""
OTHER = """
from torch.utils.data import DataLoader

for batch in DataLoader(data, batch_size=2, num_workers=1):
    model(batch).backward()
    optimizer.step()
"""
FILES = {
    "train.py": TRAIN,
    "data.py": "WORKERS = 3\n\ndef make_dataset():\n    return list(range(100))\n",
    "other.py": OTHER,
    "run.sh": "python train.py --batch_size 16\n",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose bundles are kept however little work they are."""
    monkeypatch.setattr(kept_bundles, "WORTHWHILE_S", 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files with which the bundles began that were not in the cache."""
    names: list[str] = []
    begun = Library.begun

    def noted(self: Library, name: str, make: Callable[[], object]) -> object:
        names.append(name)
        return begun(self, name, make)

    monkeypatch.setattr(Library, "begun", noted)
    return names


def scanned(project: Path, exclude: Sequence[str] = ()) -> Scanned:
    return scan([project], root=project, exclude=exclude)


def anew(project: Path, monkeypatch: pytest.MonkeyPatch) -> Scanned:
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(project.parent / "no cache"))
        return scanned(project)


def workers(found: Scanned) -> dict[tuple[str, str], object]:
    return {(one.name, each.name): each.value for one in found.bundles for each in one.settings}


def test_what_has_not_changed_is_not_read_again(project: Path, read: list[str]):
    first = scanned(project)
    assert set(read) == {"run.sh", "other.py"}
    read.clear()
    assert scanned(project) == first
    assert read == []


def test_a_module_that_changes_is_read_again_with_the_scripts_that_import_it(
    project: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
):
    scanned(project)
    read.clear()
    (project / "data.py").write_text(FILES["data.py"].replace("3", "5"))
    again = scanned(project)
    assert read == ["run.sh"]
    assert workers(again)["train.py", "loader.num_workers"] == 5
    assert again == anew(project, monkeypatch)


def test_a_file_that_was_looked_for_in_vain_counts_once_it_is_there(
    project: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
):
    (project / "data.py").rename(project / "elsewhere.txt")
    before = scanned(project)
    assert workers(before).get(("train.py", "loader.num_workers")) is None
    (project / "elsewhere.txt").rename(project / "data.py")
    read.clear()
    after = scanned(project)
    assert "run.sh" in read
    assert workers(after)["train.py", "loader.num_workers"] == 3
    assert after == anew(project, monkeypatch)


def test_a_file_that_is_gone_counts_no_more(project: Path, monkeypatch: pytest.MonkeyPatch):
    scanned(project)
    (project / "data.py").unlink()
    after = scanned(project)
    assert workers(after).get(("train.py", "loader.num_workers")) is None
    assert after == anew(project, monkeypatch)


def test_another_command_is_another_bundle(project: Path, monkeypatch: pytest.MonkeyPatch):
    scanned(project)
    (project / "run.sh").write_text("python train.py --batch_size 32\n")
    after = scanned(project)
    assert workers(after)["train.py", "loader.batch_size"] == 32
    assert after == anew(project, monkeypatch)


def test_comments_and_notes_of_files_come_with_their_bundles(project: Path, monkeypatch: pytest.MonkeyPatch):
    (project / "data.py").write_text(FILES["data.py"] + "# autotune: ignore[DL001] small\n# autotune: ignore[DL002]\n")
    (project / "run.sh").write_text("python train.py --config broken.yaml\n")
    (project / "broken.yaml").write_text("per_device_train_batch_size: [\n")
    first, again = scanned(project), scanned(project)
    assert {note.where.partition(":")[0] for note in first.notes} >= {"data.py", "broken.yaml"}
    assert again == first
    (project / "other.py").write_text(OTHER + "\n")
    assert scanned(project) == anew(project, monkeypatch)


def test_another_reader_reads_everything_again(project: Path, read: list[str], monkeypatch: pytest.MonkeyPatch):
    scanned(project)
    read.clear()
    monkeypatch.setattr(kept_bundles, "__version__", "99")
    scanned(project)
    assert set(read) == {"run.sh", "other.py"}


def test_other_exclusions_have_bundles_of_their_own(project: Path):
    scanned(project)
    assert workers(scanned(project, exclude=["data.py"])).get(("train.py", "loader.num_workers")) is None
    assert workers(scanned(project))["train.py", "loader.num_workers"] == 3


def test_what_failed_is_tried_again(project: Path, read: list[str], monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(read_script, "DETECTORS", (lambda script: 1 / 0,))
        assert any(note.is_bug for note in scanned(project).notes)
    read.clear()
    assert not scanned(project).notes
    assert set(read) == {"run.sh", "other.py"}


def test_a_folder_of_the_project_keeps_what_the_whole_has(project: Path, read: list[str]):
    (project / "part").mkdir()
    (project / "part" / "alone.py").write_text(OTHER)
    whole = scanned(project)
    scan([project / "part"], root=project)
    read.clear()
    assert scanned(project) == whole
    assert read == []


@pytest.mark.parametrize("data", [b"", b"\x00\x01\x02 no msgpack"])
def test_a_broken_cache_is_none(project: Path, data: bytes):
    first = scanned(project)
    (kept,) = (project.parent / "cache" / "autotune").glob("scan-*")
    kept.write_bytes(data)
    assert scanned(project) == first


def test_without_a_folder_for_the_cache_everything_is_read(project: Path, monkeypatch: pytest.MonkeyPatch):
    first = scanned(project)
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    assert scanned(project) == first


def test_a_scan_that_takes_little_keeps_nothing(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_bundles, "WORTHWHILE_S", 1e9)
    scanned(project)
    assert not list((project.parent / "cache").glob("autotune/scan-*"))


def test_few_projects_are_kept(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_bundles, "MAX_PROJECTS", 2)
    for number in range(4):
        scanned(project, exclude=[f"nothing{number}"])
    assert len(list((project.parent / "cache").glob("autotune/scan-*"))) == 2


@pytest.mark.parametrize(
    ("before", "then", "followed", "alike"),
    [
        (0, 90, 4, True),  # fewer than any limit
        (0, 90, 5, True),
        (0, 90, 10, False),  # at the end of the many only few are followed
        (100, 300, 5, True),
        (30, 30, 40, True),
        (99, 100, 5, False),
    ],
)
def test_how_many_modules_other_scripts_follow_counts_where_it_limits(
    before: int, then: int, followed: int, alike: bool
):
    assert is_limited_alike(before, then, followed) is alike


def test_other_processes_read_the_same(project: Path, read: list[str], monkeypatch: pytest.MonkeyPatch):
    for at in range(20):
        (project / f"more{at}.py").write_text(OTHER.replace("num_workers=1", f"num_workers={at}"))
        (project / f"raw{at}.py").write_text(TRAIN + "# autotune: ignore[DL001]\n")
    expected = anew(project, monkeypatch)
    monkeypatch.setattr(kept_bundles, "AHEAD_S", 0.0)
    monkeypatch.setattr(ahead, "num_cpus", lambda: 3)
    read.clear()
    assert scanned(project) == expected
    assert len(read) < 20, "the others were read by other processes"
    read.clear()
    assert scanned(project) == expected
    assert read == []


def test_what_another_process_cannot_read_is_read_here(project: Path, monkeypatch: pytest.MonkeyPatch):
    for at in range(20):
        (project / f"more{at}.py").write_text(OTHER)
    monkeypatch.setattr(kept_bundles, "AHEAD_S", 0.0)
    monkeypatch.setattr(ahead, "num_cpus", lambda: 2)
    monkeypatch.setattr(read_script, "DETECTORS", (lambda script: 1 / 0,))
    notes = [note.where for note in scanned(project).notes if note.is_bug]
    assert len(notes) == len(set(notes)) == 22


LIGHTNING = """
import lightning as L
import torchvision.models as models

class Module(L.LightningModule):
    def training_step(self, batch, index):
        return self.model(batch).sum()

L.Trainer(max_epochs=3).fit(Module(), loader)
"""
SAMPLED = """
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

sampler = DistributedSampler(dataset)
for epoch in range(10):
    for batch in DataLoader(dataset, sampler=sampler):
        model(batch).backward()
        optimizer.step()
"""
EPOCHS = "def begin(sampler, epoch):\n    sampler.set_epoch(epoch)\n"


@pytest.mark.parametrize(
    ("script", "name", "text", "fact"),
    [
        (LIGHTNING, "trainer.yaml", "precision: bf16-mixed\n", "code.names_no_lower_precision"),
        (SAMPLED, "epochs.py", EPOCHS, "code.never_sets_epoch"),
    ],
)
def test_what_no_file_names_is_asked_again(project, monkeypatch, script, name, text, fact):
    (project / "other.py").write_text(script)

    def facts(found: Scanned) -> set[str]:
        return {each.name for one in found.bundles if one.name == "other.py" for each in one.facts}

    assert fact in facts(scanned(project)) and fact in facts(scanned(project))
    (project / name).write_text(text)
    assert fact not in facts(scanned(project))
    assert scanned(project) == anew(project, monkeypatch)
