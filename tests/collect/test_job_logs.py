"""Which changed files are the job's own logs, and which are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.collect.job_logs import JobLogs, job_logs, printed_into

ASK = (
    "import os, sys; from autotune.collect.job_logs import job_logs; logs = job_logs({}); "
    "print(*(name for name in sorted(os.listdir('.')) if logs.has(os.path.abspath(name))), file=sys.stderr)"
)


def asked(line: str, folder: Path) -> str:
    """The logs among the files of `folder`, for a Python that the shell starts as "$PY" in `line`."""
    (folder / "other.txt").write_text("x")
    (folder / "ask.py").write_text(ASK)
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, env={**os.environ, "PY": sys.executable}
    )
    return done.stderr + done.stdout


@pytest.mark.parametrize(
    ("line", "logs"),
    [
        ('"$PY" ask.py > out.log', "out.log"),
        ('"$PY" ask.py | cat', ""),
        ('("$PY" ask.py; true) 3>&1 | tee tee.log', "tee.log"),
        ('("$PY" ask.py; true) | cat | tee -a tee.log', "tee.log"),
        ('(echo ""$PY" ask.py | cat; true" > run.sh; bash run.sh; true) > shell.log', "shell.log"),
    ],
    ids=["the shell's redirection", "a pipe", "tee", "tee behind another program", "the redirection of a shell above"],
)
def test_what_a_shell_does_with_the_output_is_a_log(line: str, logs: str, tmp_path: Path) -> None:
    assert asked(line, tmp_path).strip() == logs


def test_what_a_program_of_the_job_writes_beside_its_output_is_none(tmp_path: Path) -> None:
    code = "import sys, time; kept = open('metrics.csv', 'w'); print('begun', flush=True); time.sleep(60)"
    line = f'cat | "{sys.executable}" -c "{code}" > train.log'
    words = ["bash", "-c", f"echo x | {line} & echo $!; wait"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True) as job:
        ends_at = time.monotonic() + 30
        while not ((tmp_path / "train.log").is_file() and (tmp_path / "train.log").read_text()):
            assert time.monotonic() < ends_at
            time.sleep(0.05)
        assert job.stdout is not None
        logs = JobLogs(printed_into([int(job.stdout.readline())]))
        assert logs.has(str(tmp_path / "train.log"))
        assert not logs.has(str(tmp_path / "metrics.csv"))
        os.killpg(job.pid, signal.SIGKILL)


SCRIPT = "#!/bin/bash\n#SBATCH -c 4 {option}\n#SBATCH --time=1:00:00\nsrun autotune diagnose train.py\n"
SLURM = {"SLURM_JOB_ID": "4711"}


def is_log(name: str, folder: Path, environ: dict[str, str]) -> bool:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    return job_logs({**environ, "SLURM_SUBMIT_DIR": str(folder), "PBS_O_WORKDIR": str(folder)}).has(str(file))


@pytest.mark.parametrize(
    ("option", "log"),
    [
        ("--output=logs/%x-%j.out", "logs/train-4711.out"),
        ("--error %x.err -o logs/%A_%4a.txt", "logs/4711_0003.txt"),
        ("--error %x.err -o logs/%A_%4a.txt", "train.err"),
        ('-o "my log.txt"', "my log.txt"),
        ("-ojoined.log", "joined.log"),
        ("", "slurm-4711.out"),
    ],
)
def test_what_a_job_script_of_slurm_names_is_a_log(option: str, log: str, tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(SCRIPT.format(option=option))
    assert is_log(log, tmp_path, SLURM)
    assert not is_log("model.pt", tmp_path, SLURM)
    assert not is_log("slurm-4712.out", tmp_path, SLURM)


@pytest.mark.parametrize(
    ("environ", "log"),
    [
        ({**SLURM, "SLURM_ARRAY_JOB_ID": "4700", "SLURM_ARRAY_TASK_ID": "3"}, "slurm-4700_3.out"),
        ({"PBS_JOBID": "88.server", "PBS_JOBNAME": "train"}, "train.o88"),
        ({"PBS_JOBID": "88.server", "PBS_JOBNAME": "train"}, "train.e88"),
        ({"LSB_OUTPUTFILE": "out/%J.txt"}, "out/5.txt"),
    ],
)
def test_what_a_scheduler_names_by_itself_is_a_log(environ: dict[str, str], log: str, tmp_path: Path) -> None:
    environ = {"LS_SUBCWD": str(tmp_path), **environ} if "LSB_OUTPUTFILE" in environ else environ
    assert is_log(log, tmp_path, environ)


ARRAY = {"SLURM_JOB_ID": "4703", "SLURM_ARRAY_JOB_ID": "4700", "SLURM_ARRAY_TASK_ID": "3"}


@pytest.mark.parametrize(
    ("option", "log", "other"),
    [
        ("", "slurm-4700_2.out", "slurm-4699_2.out"),
        ("--output=logs/%j.out", "logs/4702.out", "logs/best.out"),
        ("--output=logs/%A_%3a.out", "logs/4700_001.out", "logs/4699_001.out"),
    ],
)
def test_the_other_tasks_of_an_array_write_logs(option: str, log: str, other: str, tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(SCRIPT.format(option=option))
    assert is_log(log, tmp_path, ARRAY)
    assert not is_log(other, tmp_path, ARRAY)


def test_outside_of_a_job_a_script_of_one_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(SCRIPT.format(option="--output=train.log"))
    assert not is_log("train.log", tmp_path, {})
    assert is_log("train.log", tmp_path, SLURM)


@pytest.mark.parametrize(
    ("option", "other"),
    [
        ("--output=%x-%j", "model-final.pt"),
        ("--output=logs/%x/%j", "logs/a/b/4711"),
        ("--output=%x", "model.pt"),
        ("--output=logs/%j.out", "logs/4712.out"),
    ],
)
def test_the_files_of_another_job_and_of_the_script_are_none(option: str, other: str, tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(SCRIPT.format(option=option))
    assert not is_log(other, tmp_path, {**SLURM, "SLURM_JOB_NAME": "train"})


def test_a_link_is_no_job_script(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text(SCRIPT.format(option="--output=train.log"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "job.sbatch").symlink_to(outside)
    assert not is_log("train.log", folder, SLURM)


@pytest.mark.parametrize("name", ["p[1]/slurm-4711.out", "../logs/4711.out"])
def test_folders_with_signs_and_above(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "p[1]"
    folder.mkdir()
    (folder / "job.sbatch").write_text(SCRIPT.format(option="-o ../logs/%j.out"))
    (tmp_path / "logs").mkdir()
    file = tmp_path / name.removeprefix("../")
    file.write_text("")
    logs = job_logs({**SLURM, "SLURM_SUBMIT_DIR": str(folder)})
    assert logs.has(str(file))


def test_a_pattern_that_would_be_any_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(SCRIPT.format(option="--output=%j"))
    assert not is_log("model.pt", tmp_path, SLURM)
