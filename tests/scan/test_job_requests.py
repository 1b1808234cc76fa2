"""What directives of Slurm, PBS and LSF ask for."""

from __future__ import annotations

import pytest

from autotune.scan.job_requests import JobRequest, memory_bytes, of_script

GIB = 2**30


def request(*lines: str) -> JobRequest:
    found = of_script("run.sh", "\n".join(("#!/bin/bash", *lines, "")).encode())
    assert found is not None
    return found


def told(found: JobRequest, *names: str) -> list[object]:
    return [getattr(found, name) for name in names]


@pytest.mark.parametrize(
    ("lines", "machines", "tasks", "cpus", "gpus"),
    [
        (["#SBATCH -N 2 --gpus-per-node=4", "#SBATCH --ntasks-per-node=4", "#SBATCH -c 16"], 2, 4, 64, 4),
        (["#SBATCH -N2", "#SBATCH -c16", "#SBATCH --gres=gpu:a100:4"], 2, 1, 16, 4),
        (["#SBATCH --nodes=2", "#SBATCH --ntasks=8", "#SBATCH --cpus-per-task=4"], 2, 4, 16, None),
        (["#SBATCH --gpus=4", "#SBATCH --cpus-per-gpu=8"], 1, 1, 32, 4),
        (["#SBATCH --gpus=4", "#SBATCH --nodes=2", "#SBATCH --cpus-per-gpu=8"], 2, 1, None, None),
        (["#SBATCH --ntasks=8", "#SBATCH -c 4"], None, None, None, None),
        (["#SBATCH --nodes=1-4", "#SBATCH -c 4"], None, 1, 4, None),
        (["#SBATCH --exclusive", "#SBATCH -c 4"], 1, 1, None, None),
        (["#SBATCH --ntasks-per-gpu=1", "#SBATCH -c 4", "#SBATCH --gres=gpu:2"], 1, None, None, 2),
        (["#SBATCH --gres=gpu:1"], 1, 1, None, 1),
        (["#SBATCH --gres=lscratch:200"], 1, 1, None, None),
        (["#SBATCH --gres=lscratch:200", "#SBATCH --gpus-per-node=2"], 1, 1, None, 2),
    ],
)
def test_slurm(lines: list[str], machines: int, tasks: int, cpus: int, gpus: int) -> None:
    assert told(request(*lines), "machines", "tasks", "cpus", "gpus") == [machines, tasks, cpus, gpus]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("30:15", 1815),
        ("2:30:00", 9000),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("2-00:00:30", 172830),
        ("0", None),
        ("UNLIMITED", None),
        ("1:2:3:4", None),
    ],
)
def test_a_time_limit_of_slurm(text: str, seconds: int | None) -> None:
    assert request(f"#SBATCH --time={text}").time_limit_s == seconds
    assert request(f"#SBATCH -t {text}").time_limit_s == seconds


def test_memory_is_that_of_all_machines() -> None:
    assert request("#SBATCH -N 4", "#SBATCH --mem=64G").memory_bytes == 256 * GIB
    assert request("#SBATCH --mem=64000").memory_bytes == 64000 * 2**20
    assert request("#SBATCH --mem=0").memory_bytes is None
    assert request("#SBATCH --mem-per-cpu=4G").memory_bytes is None


def test_each_number_has_the_line_that_says_it() -> None:
    places = request("#SBATCH -J x", "#SBATCH --gres=gpu:2 -c 8 # CPUs", "#SBATCH -t 10").places
    assert {name: at.line for name, at in places.items()} == {"gpus": 3, "cpus": 3, "time_limit_s": 4}


def test_lines_below_the_first_command_are_comments() -> None:
    assert request("#SBATCH -c 8", "", "# more", "#SBATCH -t 10", "module load x", "#SBATCH -c 16").cpus == 8
    assert of_script("run.sh", b"module load x\n#SBATCH -c 16\n") is None


@pytest.mark.parametrize(
    ("lines", "machines", "cpus", "gpus", "memory", "seconds", "lacks"),
    [
        (
            ["#PBS -l select=2:ncpus=16:ngpus=4:mem=64gb -l walltime=24:00:00 -l place=scatter:excl"],
            2,
            16,
            4,
            128 * GIB,
            86400,
            False,
        ),
        (["#PBS -l nodes=1:ppn=16:gpus=4,walltime=30:00"], 1, 16, 4, None, 1800, False),
        (["#PBS -l select=4:ncpus=8:ngpus=1:mem=8gb", "#PBS -l place=pack"], None, None, None, 32 * GIB, None, None),
        (["#PBS -l select=4:ncpus=8:ngpus=2"], None, None, None, None, None, None),
        (["#PBS -l nodes=2:ppn=16:gpus=4"], 2, 16, 4, None, None, False),
        (["#PBS -l select=1:ngpus=4"], 1, None, 4, None, None, True),
        (["#PBS -l select=1:ngpus=1"], 1, None, 1, None, None, None),
        (["#PBS -l ncpus=8,mem=32gb"], 1, 8, None, 32 * GIB, None, None),
        (["#PBS -l select=1:ncpus=8+2:ncpus=16"], None, None, None, None, None, None),
        (["#PBS -N name -q gpu"], 1, None, None, None, None, None),
    ],
)
def test_pbs(lines: list[str], machines: int, cpus: int, gpus: int, memory: int, seconds: int, lacks: bool) -> None:
    found = told(request(*lines), "machines", "cpus", "gpus", "memory_bytes", "time_limit_s", "lacks_cpus")
    assert found == [machines, cpus, gpus, memory, seconds, lacks]


@pytest.mark.parametrize(
    ("lines", "machines", "cpus", "gpus", "seconds", "lacks"),
    [
        (
            ['#BSUB -n 16 -R "span[hosts=1]"', '#BSUB -gpu "num=4:mode=shared"', "#BSUB -W 24:00"],
            1,
            16,
            4,
            86400,
            False,
        ),
        (
            ["#BSUB -n 32", '#BSUB -R "rusage[mem=8GB]"', '#BSUB -R "span[ptile=16]"', "#BSUB -W 90"],
            None,
            16,
            None,
            5400,
            None,
        ),
        (['#BSUB -gpu "num=4"'], 1, None, 4, None, True),
        (["#BSUB -n 32"], None, None, None, None, None),
    ],
)
def test_lsf(lines: list[str], machines: int, cpus: int, gpus: int, seconds: int, lacks: bool) -> None:
    found = told(request(*lines), "machines", "cpus", "gpus", "time_limit_s", "lacks_cpus")
    assert found == [machines, cpus, gpus, seconds, lacks]


@pytest.mark.parametrize(
    ("text", "size"),
    [("64Gi", 64 * GIB), ("64GB", 64 * GIB), ("512M", 2**29), ("1.5t", 1536 * GIB), ("8", 8), ("8+", None), ("", None)],
)
def test_amounts(text: str, size: int | None) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize(
    "line",
    [
        *("#SBATCH --gres=gpu:{}", "#SBATCH -c {}", "#SBATCH --nodes={}", "#SBATCH --mem={}G", "#SBATCH --time={}"),
        *("#SBATCH --time={}-00:00", "#PBS -l select=1:ncpus={}:mem={}gb", "#PBS -l walltime={}:00:00"),
        *("#BSUB -n {}", '#BSUB -gpu "num={}"', "#BSUB -W {}", '#BSUB -R "span[ptile={}]"'),
    ],
)
def test_a_number_of_very_many_digits_is_not_known(line: str, digits: int) -> None:
    found = request(line.replace("{}", "9" * digits))
    numbers = (found.machines, found.cpus, found.gpus, found.memory_bytes, found.time_limit_s)
    assert all(one is None or one == 1 for one in numbers)


def test_the_memory_of_too_many_machines_is_not_known() -> None:
    assert request("#SBATCH --nodes=999999999", "#SBATCH --mem=999999999T").memory_bytes is None
