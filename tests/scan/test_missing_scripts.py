"""Launch scripts whose training script was renamed or left out, and healthy twins."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.scan import scan

TRAIN = "import torch\nfor x in loader:\n    model(x.cuda()).backward()\n    optimizer.step()\n"

PARSES = """
from transformers import HfArgumentParser, Trainer, TrainingArguments
args, = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
Trainer(model, args, train_dataset=rows).train()
"""


def lacking(root: Path, name: str, text: str) -> list[str]:
    (root / "src").mkdir()
    (root / "jobs").mkdir()
    (root / "train.py").write_text(TRAIN)
    (root / "src" / "train_one.py").write_text(TRAIN)
    (root / name).write_text(text)
    return [
        str(one.value) for each in scan([root], root=root).bundles for one in each.facts if "lacks_script" in one.name
    ]


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("python train_big.py --lr 1\n", "train_big.py"),
        ("#SBATCH -N 1\nsrun torchrun --nproc_per_node 2 src/finetune.py\n", "src/finetune.py"),
        ("cd $SLURM_SUBMIT_DIR\naccelerate launch train_big.py\n", "train_big.py"),
        ('cd "$(dirname "$0")/.."\npython train_big.py\n', "train_big.py"),
        ("python run_ctc.py --per_device_train_batch_size 2 --gradient_accumulation_steps=4 --fp16\n", "run_ctc.py"),
    ],
)
def test_a_script_that_the_project_does_not_hold(tmp_path: Path, text: str, script: str) -> None:
    assert lacking(tmp_path, "jobs/run.sh", text) == [script]


@pytest.mark.parametrize(
    "text",
    [
        "python train.py\n",
        "python old/train_one.py\n",  # the folder was renamed, or the shell stands elsewhere
        "python $HOME/train_big.py\n",
        "python /opt/train_big.py\n",
        "python ../other/train_big.py\n",
        "python other/train_big.py\n",
        "python evaluate_all.py\n",
        "python run_ctc.py --beam 4\n",
        "cd /data/other && python run_ctc.py --per_device_train_batch_size 2 --gradient_accumulation_steps=4\n",
        "cd /data/other && python train_big.py\n",
        "git clone https://example.org/other\npython train_big.py\n",
        "wget https://example.org/train_big.py\npython train_big.py\n",
        "docker run image python train_big.py\n",
    ],
)
def test_a_script_that_may_be_there(tmp_path: Path, text: str) -> None:
    assert lacking(tmp_path, "jobs/run.sh", text) == []


def test_nothing_else_is_said_of_such_a_command(tmp_path: Path) -> None:
    """A command whose script is there is judged by its flags, and its twin by the missing script alone."""
    for name in ("there.sh", "lacking.sh"):
        script = "train.py" if name == "there.sh" else "run_ctc.py"
        text = f"python {script} --per_device_train_batch_size 2 --evaluation_strategy steps --save_steps 5\n"
        (tmp_path / name).write_text(text)
    (tmp_path / "train.py").write_text(PARSES)
    found = {each.name: each for each in scan([tmp_path], root=tmp_path).bundles}
    told = {fact.name for fact in found["train.py"].facts}
    assert "arguments.removed" in told and "job.lacks_script" not in told
    assert {fact.name for fact in found["lacking.sh"].facts if fact.name.startswith(("arguments", "job"))} == {
        "job.lacks_script"
    }
    assert not found["lacking.sh"].settings


def test_a_project_with_submodules_may_hold_it(tmp_path: Path) -> None:
    (tmp_path / ".gitmodules").write_text("")
    assert lacking(tmp_path, "run.sh", "python train_big.py\n") == []


def test_a_folder_with_a_name_that_no_system_allows(tmp_path: Path) -> None:
    assert lacking(tmp_path, "run.sh", f"python {'a' * 300}/train_big.py\n") == []
    assert not any(one.is_bug for one in scan([tmp_path], root=tmp_path).notes)


def test_a_cell_of_a_notebook_may_stand_anywhere(tmp_path: Path) -> None:
    cell = '{"cells": [{"cell_type": "code", "source": ["!python train_big.py"]}], "nbformat": 4}'
    assert lacking(tmp_path, "run.ipynb", cell) == []
