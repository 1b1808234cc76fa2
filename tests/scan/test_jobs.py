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
    return {
        one.name: one.value for one in bundle.facts if one.name.startswith(("job.", "config.num", "config.restricted"))
    }


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
        (["#SBATCH --gres=gpu:4", f"CUDA_VISIBLE_DEVICES=$GPUS {RUN}"], None),
        (["#SBATCH --gres=gpu:4", f"CUDA_VISIBLE_DEVICES=GPU-8f1c {RUN}"], None),
        (["#SBATCH --gres=gpu:4", f"srun -n 1 {RUN}"], 4),
        (["#SBATCH --gres=gpu:4", f"srun --gpus=2 -n 1 {RUN} &"], None),
        (["#SBATCH --gres=gpu:4", f"srun -G 2 {RUN}"], None),
        (["#SBATCH --gres=gpu:4", f"srun --gres gpu:2 {RUN}"], None),
        (["#SBATCH --gres=gpu:4", f"srun --gpus-per-task=2 {RUN}"], None),
        (["#SBATCH --gres=gpu:4", f"srun $FLAGS {RUN}"], None),
        (["#SBATCH --gres=gpu:4", f"docker run --gpus all image {RUN}"], 4),
        (["#SBATCH --gres=gpu:4", f"docker run --gpus 2 image {RUN}"], None),
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


SLURM = ("#SBATCH -N 2 --gpus-per-node=4", "#SBATCH --ntasks-per-node=4", "#SBATCH --cpus-per-task=8")
PLAIN = "python train.py"


@pytest.mark.parametrize(
    ("lines", "processes"),
    [
        ([*SLURM, f"srun {PLAIN}"], 4),
        ([*SLURM, f"srun --cpus-per-task=$SLURM_CPUS_PER_TASK {PLAIN}"], 4),
        ([*SLURM, f"srun -n 8 {PLAIN}"], None),
        ([*SLURM, f"srun $FLAGS {PLAIN}"], None),
        ([*SLURM, PLAIN], None),
        ([RUN], 2),
        (["torchrun --nproc_per_node $N train.py"], None),
        (["torchrun --nproc_per_node gpu train.py"], None),
        (["torchrun --nnodes 2 --nproc_per_node 4 train.py"], 4),
        (["accelerate launch --num_processes 4 train.py"], 4),
        (["accelerate launch --num_processes 8 --num_machines 2 train.py"], None),
        (["accelerate launch --config_file two.yaml --num_processes 16 train.py"], None),
        (["accelerate launch --config_file two.yaml --num_processes 4 --num_machines 1 train.py"], 4),
        (["#SBATCH --nodes=2", "accelerate launch --num_processes 16 train.py"], None),
        (["#SBATCH --nodes=$N", "accelerate launch --num_processes 16 train.py"], None),
        (["#SBATCH --nodes=1", "accelerate launch --num_processes 4 train.py"], 4),
        (["deepspeed --num_gpus 4 train.py"], 4),
        (["mpirun -np 4 python train.py"], None),
    ],
)
def test_the_processes_of_one_machine(tmp_path: Path, lines: list[str], processes: int | None) -> None:
    assert stated(tmp_path, *lines).get("job.local_processes") == processes


@pytest.mark.parametrize(
    ("command", "lacks"),
    [
        (f"srun {PLAIN}", True),
        (f"srun -c 8 {PLAIN}", False),
        (f"srun --cpus-per-task=$SLURM_CPUS_PER_TASK {PLAIN}", False),
        (f"export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\nsrun {PLAIN}", False),
        (f"srun $FLAGS {PLAIN}", False),
        (PLAIN, None),
    ],
)
def test_whether_srun_is_told_the_cpus_of_a_task(tmp_path: Path, command: str, lacks: bool | None) -> None:
    found = stated(tmp_path, *SLURM, command)
    assert found.get("job.step_lacks_cpus") is lacks
    assert found.get("job.cpus_per_task") == (8 if lacks is not None else None)
    assert found["job.cpus"] == 32


@pytest.mark.parametrize(
    ("command", "threads"),
    [
        (f"OMP_NUM_THREADS=8 {RUN}", 8),
        (f"export OMP_NUM_THREADS=8\n{RUN}", 8),
        (f"export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\n{RUN}", None),
        (RUN, None),
    ],
)
def test_the_threads_of_a_process(tmp_path: Path, command: str, threads: int | None) -> None:
    assert stated(tmp_path, command).get("job.num_threads") == threads


@pytest.mark.parametrize(
    ("words", "is_small"),
    [
        ("docker run --gpus all -v $PWD:/work image", True),
        ("docker run --shm-size 8g image", False),
        ("docker run --shm-size=$SHM image", False),
        ("podman run --ipc=host image", False),
        ("docker run -v /dev/shm:/dev/shm image", False),
        ("docker run $DOCKER_ARGS image", None),
        ("docker container run image", True),
        ("sudo docker run --volume=/dev/shm:/dev/shm image", False),
        ("docker run --mount type=tmpfs,destination=/dev/shm image", False),
        ("podman run --tmpfs=/dev/shm:size=8g image", False),
        ("docker exec trainer", None),
        ("docker compose run trainer", None),
        ("apptainer exec --nv image.sif", None),
        ("srun --container-image=image", None),
    ],
)
def test_the_shared_memory_of_a_container(tmp_path: Path, words: str, is_small: bool | None) -> None:
    assert stated(tmp_path, f"{words} {RUN}").get("job.has_small_shm") is is_small


def test_what_a_job_gets_is_read_from_the_file_that_starts_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "sky.yaml").write_text(
        "resources: {accelerators: A100:8, cpus: 16}\nrun: |\n  torchrun --nproc_per_node 4 train.py\n"
    )
    (bundle,) = scan([tmp_path], root=tmp_path).bundles
    assert bundle.files == ("train.py", "sky.yaml")
    places = {one.name: (one.value, one.places[0].line) for one in bundle.facts if one.name.startswith("job.")}
    assert places == {"job.num_gpus": (8, 1), "job.cpus": (16, 1), "job.local_processes": (4, 3)}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["#SBATCH --partition=V100", RUN], True),
        (["#SBATCH --gres=gpu:v100:4", RUN], True),
        (["#SBATCH --constraint=volta32gb", RUN], True),
        (["#SBATCH --constraint=volta|A100", RUN], True),
        (["#SBATCH -A vuo@v100", RUN], True),
        (["#SBATCH --gres=gpu:tesla_t4:1", RUN], True),
        (["#SBATCH --gres=gpu:rtx2080ti:1", RUN], True),
        (["#PBS -l select=1:ngpus=4:gpu_model=v100", RUN], True),
        (['#BSUB -gpu "num=1:gmodel=TeslaV100"', RUN], True),
        ([f"srun -p P100 {RUN}"], True),
        (["#SBATCH --gres=gpu:a100:4", RUN], None),
        (["#SBATCH --qos=qos_gpu-t4", RUN], None),
        (["#SBATCH --job-name=v100", RUN], None),
        (["#SBATCH --constraint=rtx6000", RUN], None),
        (["# #SBATCH --partition=V100", RUN], None),
    ],
)
def test_cards_before_ampere_that_a_job_names(tmp_path: Path, lines: list[str], expected: bool | None) -> None:
    assert stated(tmp_path, *lines).get("job.lacks_bf16") is expected


IN_FP32 = TRAIN + "\nfor x in loader:\n    loss = model(x)\n    loss.backward()\n    optimizer.step()\n"


@pytest.mark.parametrize(
    ("jobs", "lacks"),
    [
        ({"old/slurm/eval.slurm": "#SBATCH -A vuo@v100"}, True),
        ({"old/slurm/eval.slurm": "#SBATCH -A vuo@v100", "old/big.slurm": "#SBATCH --gres=gpu:a100:1"}, None),
        ({"old/slurm/eval.slurm": "#SBATCH -A vuo@v100", "new/big.slurm": "#SBATCH --gres=gpu:a100:1"}, True),
        ({"job.slurm": "#SBATCH --partition=V100"}, True),  # of the whole project
        ({"job.slurm": "#SBATCH --constraint=volta|A100"}, None),
        ({"job.slurm": "#SBATCH --gres=gpu:1"}, None),
        ({"scripts/job.slurm": "#SBATCH --partition=V100"}, True),
        ({}, None),
    ],
)
def test_the_cards_of_the_jobs_around_a_script_that_none_starts(
    tmp_path: Path, jobs: dict[str, str], lacks: bool | None
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old/train.py").write_text(IN_FP32)
    for name, line in jobs.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(f"#!/bin/bash\n{line}\npython evaluate.py --model out\n")
    (bundle,) = [one for one in scan([tmp_path], root=tmp_path).bundles if one.name == "old/train.py"]
    assert {one.name: one.value for one in bundle.facts}.get("job.lacks_bf16") is lacks


@pytest.mark.parametrize(
    ("lines", "links"),
    [
        ([f"NCCL_IB_DISABLE=1 {RUN}"], ""),
        (["#SBATCH --nodes=1", f"NCCL_IB_DISABLE=1 {RUN}"], ""),
        (["#SBATCH --nodes=2", f"NCCL_IB_DISABLE=1 srun {RUN}"], "NCCL_IB_DISABLE=1"),
        ([f"NCCL_IB_DISABLE=1 {RUN.replace('torchrun', 'torchrun --nnodes 2')}"], "NCCL_IB_DISABLE=1"),
        ([f"NCCL_IB_DISABLE=1 {RUN.replace('torchrun', 'torchrun --nnodes $NODES')}"], "NCCL_IB_DISABLE=1"),
        ([f"NCCL_IB_DISABLE=1 {RUN.replace('torchrun', 'torchrun --nnodes 1')}"], ""),
    ],
)
def test_links_between_machines_that_a_command_forbids(tmp_path: Path, lines: list[str], links: str) -> None:
    assert stated(tmp_path, *lines)["config.restricted_links"] == links
