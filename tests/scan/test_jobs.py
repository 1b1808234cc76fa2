"""What a job asks of its machine, read off its launch script."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.scan import scan

TRAIN = "import torch\nfor x in loader:\n    model(x.cuda()).backward()\n    optimizer.step()\n"


def stated(root: Path, *lines: str) -> dict[str, object]:
    (root / "train.py").write_text(TRAIN)
    (root / "run.sh").write_text("\n".join(("#!/bin/bash", *lines, "")))
    (bundle,) = [one for one in scan([root], root=root).bundles if one.name == "train.py"]
    return {one.name: one.value for one in bundle.facts if one.name.startswith(("job.", "config.num"))}


RUN = "torchrun --nproc_per_node 2 train.py"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["#SBATCH --gres=gpu:4", RUN], 4),
        (["#SBATCH --gres=gpu:a100:2", RUN], 2),
        (["#SBATCH --gpus=4", "#SBATCH -N 1", RUN], 4),
        (["#SBATCH --gpus=4", "#SBATCH --nodes=2", RUN], None),
        (["#SBATCH --gpus-per-node 8", "#SBATCH --nodes=2", RUN], 8),
        ([f"CUDA_VISIBLE_DEVICES=0,1,2 {RUN}"], 3),
        ([f"CUDA_VISIBLE_DEVICES=$GPUS {RUN}"], None),
        (["vllm serve m &", f"CUDA_VISIBLE_DEVICES=0,1,2 {RUN}"], None),
        ([RUN], None),
    ],
)
def test_the_gpus_that_a_command_may_use(tmp_path: Path, lines: list[str], expected: int | None) -> None:
    found = stated(tmp_path, *lines)
    assert found.get("job.num_gpus") == expected
    assert found["config.num_processes"] == 2


@pytest.mark.parametrize(
    ("lines", "lacks"),
    [
        (["#SBATCH --gres=gpu:4"], True),
        (["#SBATCH --gres=gpu:4", "#SBATCH --ntasks-per-node=1"], True),
        (["#SBATCH --gres=gpu:4", "#SBATCH --ntasks-per-node=4"], False),
        (["#SBATCH --gres=gpu:4", "#SBATCH --cpus-per-task=16"], False),
        (["#SBATCH --gres=gpu:4", "#SBATCH -c 16"], False),
        (["#SBATCH --gres=gpu:4", "#SBATCH --exclusive"], False),
        (["#SBATCH --gres=gpu:4", "#SBATCH -N 1 -c 64 # CPUs"], False),
        (["#SBATCH --gres=gpu:1"], None),
        ([], None),
    ],
)
def test_a_job_that_asks_for_no_cpus(tmp_path: Path, lines: list[str], lacks: bool | None) -> None:
    assert stated(tmp_path, *lines, RUN).get("job.lacks_cpus") is lacks
