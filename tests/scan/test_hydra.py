"""The files that a script of Hydra's puts together, and what the command says instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.model.evidence import Location, Setting
from autotune.model.scanned import TYPED
from autotune.scan.command import scan_command

SCRIPT = """\
import hydra
import torch

@hydra.main(version_base=None, config_path="../configs", config_name="train")
def main(cfg):
    model = torch.nn.Linear(2, 2)
    loss = model(torch.ones(2)).sum()
    loss.backward()

main()
"""
DATA = "_target_: data.Images\nbatch_size: 32\nnum_workers: {}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "src/train.py": SCRIPT,
        "configs/train.yaml": "defaults:\n  - _self_\n  - data: images\n  - logger: null\nseed: 1\n",
        "configs/data/images.yaml": DATA.format(0),
        "configs/data/text.yaml": "defaults:\n  - images\nnum_workers: 3\n",
        "configs/data/large.yaml": DATA.format(8),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def workers(project: Path, *words: str) -> Setting | None:
    bundle = scan_command(["src/train.py", *words], cwd=project, root=project, versions={})
    assert bundle is not None
    return next((one for one in bundle.settings if one.name == "loader.num_workers"), None)


def place(setting: Setting | None) -> Location:
    assert setting is not None
    assert setting.location is not None
    return setting.location


def test_the_file_of_a_group_gives_its_values(project: Path) -> None:
    found = workers(project)
    assert (place(found).file, place(found).line) == (str(project / "configs/data/images.yaml"), 3)
    assert found.value == 0
    assert found.feeds is None


def test_the_command_chooses_another_file(project: Path) -> None:
    found = workers(project, "data=large")
    assert place(found).file == str(project / "configs/data/large.yaml")
    assert found.value == 8


def test_a_value_of_the_command_wins_over_the_file(project: Path) -> None:
    found = workers(project, "data.num_workers=4")
    assert (place(found).file, place(found).key, found.value) == (TYPED, "data.num_workers", 4)


def test_a_script_without_hydra_has_no_such_configs(project: Path) -> None:
    (project / "src/train.py").write_text(SCRIPT.replace("@hydra.main", "@other.main"))
    bundle = scan_command(["src/train.py"], cwd=project, root=project, versions={})
    assert bundle is None or not bundle.settings


def test_defaults_that_name_each_other_end(project: Path) -> None:
    (project / "configs/data/images.yaml").write_text("defaults:\n  - images\n" + DATA.format(2))
    assert workers(project).value == 2
