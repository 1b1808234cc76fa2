"""The files behind a typed command: absolute places, as a run names them, and the words themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.model.evidence import Setting
from autotune.model.scanned import TYPED, Bundle, Pin
from autotune.scan import scan as scan_files
from autotune.scan.command import files_outside, project_pins, scan_command

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


@pytest.mark.parametrize("start", ["./run.sh", "bash run.sh"])
@pytest.mark.parametrize(
    ("text", "typed", "value", "place"),
    [
        ('N=${1:-3}\npython train.py --workers "$N"\n', "", 3, ("run.sh", 1)),
        ('N=${1:-3}\npython train.py --workers "$N"\n', "7", 7, (TYPED, 2)),
        ('python train.py "$@"\n', "--workers 7", 7, (TYPED, 1)),
        ('python train.py "$@"\n', "", 2, ("train.py", 6)),
        ('ARGS=(--workers 5 --lr 1)\npython train.py "${ARGS[@]}" "$@"\n', "", 5, ("run.sh", 1)),
    ],
)
def test_a_script_of_the_shell_gets_what_is_typed_behind_it(
    project: Path, start: str, text: str, typed: str, value: int, place: tuple[str, int]
) -> None:
    (project / "run.sh").write_text(text)
    found = workers(scan(project, *start.split(), *typed.split()))
    assert found.value == value
    assert found.location is not None
    assert (Path(found.location.file).name, found.location.line) == place


@pytest.mark.parametrize(
    ("text", "argv", "files"),
    [
        ("python train.py $(choose)\n", ["train.py", "a.yaml"], {"train.py", "a.yaml", "run.sh"}),
        ("python train.py --config $X\n", ["/x/train.py", "--config", "a.yaml"], {"train.py", "a.yaml", "run.sh"}),
        ("python train.py --config=$X\n", ["train.py", "--config=a.yaml"], {"train.py", "a.yaml", "run.sh"}),
        ("python train.py $(choose)\n", [], {"train.py", "run.sh"}),
        ("python train.py b.yaml\n", ["train.py", "a.yaml"], {"train.py", "b.yaml", "run.sh"}),
        ("python train.py b.yaml\npython other.py a.yaml\n", ["other.py", "a.yaml"], {"other.py", "a.yaml", "run.sh"}),
    ],
)
def test_what_a_run_started_says_what_the_shell_does_not(
    tmp_path: Path, text: str, argv: list[str], files: set[str]
) -> None:
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_text(
            "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
            "(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file('x')\nTrainer(model, args).train()\n"
        )
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("output_dir: out\nper_device_train_batch_size: 4\n")
    (tmp_path / "run.sh").write_text(text)
    found = scan_command(["bash", "run.sh"], cwd=tmp_path, root=tmp_path, versions={}, argv=argv)
    assert found is not None
    assert set(found.files) == files


@pytest.mark.parametrize(
    "text",
    [
        'CONFIG=${1:-configs/base.yaml}\npython train.py "$CONFIG"\n',
        'CONFIG="${1:-configs/base.yaml}"\npython train.py --config=$CONFIG\n',
        "python train.py ${CONFIG:-configs/base.yaml}\n",
        'ARGS=(--config configs/base.yaml)\npython train.py "${ARGS[@]}" "$@"\n',
    ],
)
def test_check_takes_the_defaults_of_a_script_of_the_shell(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.sh").write_text(text)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/base.yaml").write_text("output_dir: out\nper_device_train_batch_size: 4\n")
    (tmp_path / "train.py").write_text(
        "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file('x')\nTrainer(model, args).train()\n"
    )
    bundles = scan_files([tmp_path], root=tmp_path).bundles
    assert [set(one.files) for one in bundles] == [{"train.py", "configs/base.yaml", "run.sh"}]


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
    assert project_pins(found, cwd=project / "inner", root=project) == both
    assert project_pins(None, cwd=project, root=project) == both
    (project / "inner" / "requirements.txt").write_text("transformers<4.39\n")
    assert project_pins(None, cwd=project / "inner", root=project) == (
        Pin("transformers<4.39", "inner/requirements.txt:1"),
    )
    assert project_pins(found, cwd=project / "inner", root=project) == both
    assert project_pins(None, cwd=project.parent, root=project) == ()


@pytest.mark.parametrize(
    "words",
    [
        ["{root}/train.py"],
        ["inner/../train.py"],
        ["A=1", "B=x y", "train.py"],
        ["env", "A=1", "python", "train.py"],
        ["uv", "run", "train.py"],
        ["-m", "train"],
        ["{root}/run.sh"],
        ["./launch"],
        ["start"],
    ],
)
def test_a_command_means_the_same_however_it_is_named(project: Path, words: list[str]) -> None:
    (project / "inner").mkdir()
    (project / "run.sh").write_text("python train.py\n")
    (project / "launch").write_text("#!/usr/bin/env bash\npython train.py\n")
    tool = project / "bin" / "start"
    tool.parent.mkdir()
    tool.write_text(f"#!{tool.parent}/python\nfrom train import main\n")
    tool.chmod(0o755)
    given = [word.format(root=project) for word in words]
    found = workers(scan_command(given, cwd=project, root=project, versions={}, environ={"PATH": str(tool.parent)}))
    assert found.location is not None
    assert (found.value, found.location.file, found.location.line) == (2, str(project / "train.py"), 6)


def test_a_link_is_read_where_it_leads_and_named_as_the_run_names_it(project: Path, tmp_path_factory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "link.py").symlink_to(project / "train.py")
    found = workers(scan(project, "link.py", cwd=elsewhere))
    assert found.location is not None
    assert found.location.file == str(elsewhere / "link.py")


def test_a_script_is_read_whatever_its_name_ends_with(project: Path) -> None:
    (project / "start").write_text("#!/usr/bin/env python\n" + SCRIPT)
    found = workers(scan(project, "./start"))
    assert found.location is not None
    assert (found.location.file, found.location.line) == (str(project / "start"), 7)


def test_what_lies_outside_the_root_is_named(project: Path, tmp_path_factory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "a.yaml").write_text("")
    (project / "b.yaml").write_text("")
    words = ["train.py", f"--config={elsewhere}/a.yaml", "b.yaml", "missing.yaml"]
    assert files_outside(words, cwd=project, root=project) == (elsewhere / "a.yaml",)
    assert files_outside(["../x.py"], cwd=project, root=project) == ()


def test_a_command_whose_files_take_too_much_work_is_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.scan.library.BUNDLE_STEPS", 10)
    assert scan(project, "train.py") is None
