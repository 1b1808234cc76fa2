"""The files behind a typed command: absolute places, as a run names them, and the words themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.model.evidence import Setting
from autotune.model.scanned import TYPED, Bundle, Pin
from autotune.scan.command import pins, scan_command

SCRIPT = """\
import argparse
import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
args = parser.parse_args()
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(list(range(8)), batch_size=4, num_workers=args.workers)
for batch in loader:
    loss = model(batch.float()[:, None]).sum()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def scan(project: Path, *words: str, cwd: Path | None = None) -> Bundle | None:
    return scan_command(words, cwd=cwd or project, root=project, versions={})


def workers(bundle: Bundle | None) -> Setting:
    assert bundle is not None
    return next(one for one in bundle.settings if one.name == "loader.num_workers")


def test_the_places_of_a_script_are_absolute(project: Path) -> None:
    found = workers(scan(project, "train.py"))
    assert found.value == 2
    assert found.location is not None
    assert (found.location.file, found.location.line) == (str(project / "train.py"), 6)
    assert found.feeds is not None
    assert found.feeds.file == str(project / "train.py")


@pytest.mark.parametrize(
    "words",
    [
        ["train.py", "--workers", "5"],
        ["python", "train.py", "--workers=5"],
        ["torchrun", "--nproc-per-node", "1", "train.py", "--workers", "5"],
        ["bash", "-c", "python train.py --workers 5"],
    ],
)
def test_a_typed_value_stands_on_the_command_line(project: Path, words: list[str]) -> None:
    found = workers(scan(project, *words))
    assert found.location is not None
    assert (found.value, found.location.file, found.location.key) == (5, TYPED, "--workers")


def test_a_script_of_the_shell_is_read(project: Path) -> None:
    (project / "run.sh").write_text("set -e\npython train.py \\\n  --workers 7\n")
    found = workers(scan(project, "bash", "run.sh"))
    assert found.location is not None
    assert (found.value, found.location.file, found.location.line) == (7, str(project / "run.sh"), 3)


def test_a_command_in_a_folder_below_the_root(project: Path) -> None:
    (project / "inner").mkdir()
    found = workers(scan(project, "../train.py", "--workers", "3", cwd=project / "inner"))
    assert found.location is not None
    assert (found.value, found.location.file) == (3, TYPED)


def test_nothing_is_said_of_files_outside_the_root_and_of_what_cannot_be_read(project: Path) -> None:
    assert scan_command(["train.py"], cwd=project.parent, root=project, versions={}) is None
    assert scan(project, "bash", "-c", "python 'train.py") is None
    assert scan(project, "missing.py") is None
    two = "python train.py --workers 1; python train.py --workers 2"
    assert scan(project, "bash", "-c", two) is None


def test_pins_are_those_of_the_nearest_folder_of_the_script(project: Path) -> None:
    (project / "inner").mkdir()
    (project / "requirements.txt").write_text("\n\ntransformers==4.40\n")
    (project / "requirements-dev.txt").write_text("torch<2.5\n")
    both = (Pin("torch<2.5", "requirements-dev.txt:1"), Pin("transformers==4.40", "requirements.txt:3"))
    found = scan(project, "train.py")
    assert pins(found, cwd=project / "inner", root=project) == both
    assert pins(None, cwd=project, root=project) == both
    (project / "inner" / "requirements.txt").write_text("transformers<4.39\n")
    assert pins(None, cwd=project / "inner", root=project) == (Pin("transformers<4.39", "inner/requirements.txt:1"),)
    assert pins(found, cwd=project / "inner", root=project) == both
    assert pins(None, cwd=project.parent, root=project) == ()
