"""Jobs of schedulers with a fault each, and their healthy twins: what a reviewer would say, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.check.check import CheckOptions, check

RULES = ("CP005", "CP006", "CP007", "CK006", "DD011", "DD019", "DL003", "DL010", "ME010")
TRAIN = "from transformers import *\n(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
TRAIN += "Trainer(model, args).train()\n"

SLURM = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
export OMP_NUM_THREADS=8
srun -c 32 torchrun --nnodes 2 --nproc_per_node 4 train.py --dataloader_num_workers 8 --bf16
"""
TASKS = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
srun --cpus-per-task=$SLURM_CPUS_PER_TASK python train.py --dataloader_num_workers $SLURM_CPUS_PER_TASK --bf16
"""
PBS = """\
#!/bin/bash
#PBS -l select=1:ncpus=32:ngpus=4
#PBS -l walltime=00:50:00
cd $PBS_O_WORKDIR
torchrun --nproc_per_node 4 train.py --dataloader_num_workers 8 --save_strategy no --bf16
"""
LSF = """\
#!/bin/bash
#BSUB -n 32
#BSUB -R "span[hosts=1]"
#BSUB -gpu "num=4"
torchrun --nproc_per_node 4 train.py --dataloader_num_workers 8 --bf16
"""
KUBERNETES = """\
apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      containers:
        - name: train
          command: [torchrun, --nproc_per_node=4, train.py, --dataloader_num_workers=8, --bf16]
          resources:
            limits: {nvidia.com/gpu: 4, cpu: 32}
          volumeMounts:
            - {name: shm, mountPath: /dev/shm}
      volumes:
        - {name: shm, emptyDir: {medium: Memory}}
"""
SKYPILOT = """\
resources:
  accelerators: A100:4
  cpus: 32+
run: |
  torchrun --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE train.py --dataloader_num_workers 8 --bf16
"""
DSTACK = """\
type: task
commands:
  - torchrun --nproc_per_node=4 train.py --dataloader_num_workers 8 --bf16
resources:
  gpu: 80GB:4
  cpu: 32
  shm_size: 16GB
"""
DOCKER = """\
#!/bin/bash
docker run --gpus all --ipc=host -v $PWD:/w img torchrun --nproc_per_node 4 train.py --dataloader_num_workers 8
"""
HEALTHY = {
    "slurm.sh": SLURM, "tasks.sbatch": TASKS, "pbs.sh": PBS, "lsf.sh": LSF, "k8s.yaml": KUBERNETES,
    "sky.yaml": SKYPILOT, "dstack.yml": DSTACK, "docker.sh": DOCKER,
}  # fmt: skip


def found(root: Path, name: str, text: str) -> list[str]:
    (root / "train.py").write_text(TRAIN)
    (root / name).write_text(text)
    checked = check(CheckOptions(paths=(Path(),), select=RULES, with_minor=True), cwd=root)
    assert [each.bundle.files for each in checked.bundles] == [("train.py", name)]
    return sorted(f"{one.rule.id}:{one.location.line if one.location else 0}" for one in checked.findings)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_job(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, name, HEALTHY[name]) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("slurm.sh", "num_workers 8", "num_workers 9", ["DL003:8"]),
        ("slurm.sh", "--cpus-per-task=32", "--cpus-per-task=16", ["CP006:7", "DL003:8"]),
        ("slurm.sh", "OMP_NUM_THREADS=8", "OMP_NUM_THREADS=32", ["CP006:7"]),
        ("slurm.sh", "srun -c 32", "srun", ["CP007:8"]),
        ("slurm.sh", "--nproc_per_node 4", "--nproc_per_node 2", ["DD011:3"]),
        ("slurm.sh", "gpus-per-node=4", "gpus-per-node=2", ["DD019:3"]),
        ("slurm.sh", "--bf16", "--bf16 --save_strategy no", ["CK006:6"]),
        ("slurm.sh", "#SBATCH --cpus-per-task=32\n", "", ["CP005:3"]),
        ("tasks.sbatch", "num_workers $SLURM_CPUS_PER_TASK", "num_workers 9", ["DL003:7"]),
        ("tasks.sbatch", "OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS=32", ["CP006:6"]),
        ("tasks.sbatch", "--ntasks-per-node=4", "--ntasks-per-node=2", ["DD011:3"]),
        ("pbs.sh", "ncpus=32", "ncpus=16", ["DL003:5"]),
        ("pbs.sh", "ncpus=32:", "", ["CP005:2"]),
        ("pbs.sh", "00:50:00", "10:00:00", ["CK006:3"]),
        ("lsf.sh", "num=4", "num=2", ["DD019:4"]),
        ("lsf.sh", "-n 32", "-n 4", ["DL003:5"]),
        ("k8s.yaml", "mountPath: /dev/shm", "mountPath: /data", ["DL010:7"]),
        ("k8s.yaml", "cpu: 32", "cpu: 8", ["DL003:8"]),
        ("k8s.yaml", "--nproc_per_node=4", "--nproc_per_node=2", ["DD011:10"]),
        ("sky.yaml", "$SKYPILOT_NUM_GPUS_PER_NODE", "2", ["DD011:2"]),
        ("dstack.yml", "  shm_size: 16GB\n", "", ["DL010:5"]),
        ("docker.sh", "--ipc=host ", "", ["DL010:2"]),
    ],
)
def test_a_job_with_a_fault(tmp_path: Path, name: str, old: str, new: str, expected: list[str]) -> None:
    assert HEALTHY[name].count(old) == 1
    assert found(tmp_path, name, HEALTHY[name].replace(old, new)) == expected


def test_memory_for_what_is_offloaded(tmp_path: Path) -> None:
    zero = '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "gradient_clipping": 1.0}'
    (tmp_path / "zero.json").write_text(zero)
    command = "deepspeed --num_gpus 4 train.py --deepspeed zero.json --model_name_or_path meta-llama/Llama-2-7b-hf"
    for memory, expected in (("64G", ["ME010"]), ("128G", [])):
        (tmp_path / "train.py").write_text(TRAIN)
        (tmp_path / "run.sh").write_text(f"#SBATCH --mem={memory}\n#SBATCH -N 1\n{command}\n")
        checked = check(CheckOptions(paths=(Path(),), select=("ME010",)), cwd=tmp_path)
        assert [one.rule.id for one in checked.findings] == expected
