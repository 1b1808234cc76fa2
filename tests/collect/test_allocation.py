"""A measurement in a job of a scheduler, played by a shell that starts the script: no scheduler is needed for that."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from autotune import collect
from autotune.collect import allocation as module
from autotune.collect import allocation_worker, artefacts
from autotune.collect.allocation import Allocation, check_launch
from autotune.errors import ScriptError, UsageError

HERE = "sh {script}"
TRAIN = """
import os, pathlib, torch
pathlib.Path("told").write_text(os.environ.get("TOLD", "-"))
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(400):
    optimizer.zero_grad()
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
"""


def nothing(status: collect.Status) -> None:
    pass


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def allocation(project: Path, launch: str = HERE, words: tuple[str, ...] = ("train.py",)) -> Allocation:
    return Allocation(launch, project / "job", words, project, os.environ)


def measured(there: Allocation, project: Path, script: str = "train.py") -> collect.Collected:
    command = collect.plan_command((script,), sys.executable, project)
    environ = {**os.environ, "TOLD": "yes"}
    request = collect.Request(steps=5, what_ifs=False)
    run = artefacts.new_run(project)
    return there.collect(request, command, run, cwd=project, environ=environ, show=nothing, title="t", lock=False)


@pytest.mark.parametrize(("launch", "what"), [("sbatch --wait", "is missing"), ("sbatch '{script}", "not a command")])
def test_a_launch_command_has_to_start_the_script(launch: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        check_launch(launch)
    check_launch("srun -N1 {script}")


@pytest.mark.train
def test_several_measurements_of_one_job(project: Path) -> None:
    """The second one fails, as it does on this machine; the first one has what collect gives here."""
    with allocation(project) as there:
        facts = {fact.name: fact.value for fact in there.machine(nothing)}
        first = measured(there, project)
        (project / "train.py").write_text("raise SystemExit(7)\n")
        second = measured(there, project)
    assert facts["machine.host_cpus"] == os.cpu_count()
    assert (first.ended_by, len(first.recordings)) == ("probe", 1)
    assert first.recordings[0].window is not None and first.recordings[0].window.steps == 5
    assert first.sampled is not None and first.startup_s is not None
    assert (second.ended_by, second.exit_code, second.recordings) == ("script", 7, ())
    assert not (project / "told").exists()  # what the script writes goes to scratch there, too


def test_an_error_there_is_one_here(project: Path) -> None:
    (project / "gone").write_text("#!/nowhere/python\n")
    (project / "gone").chmod(0o755)
    with allocation(project) as there, pytest.raises(ScriptError, match="cannot be started"):
        command = collect.PlannedCommand((str(project / "gone"),), None)
        run = artefacts.new_run(project)
        there.collect(
            collect.Request(), command, run, cwd=project, environ=os.environ, show=nothing, title="t", lock=False
        )


def test_a_job_that_ends_without_a_result_says_what_it_said(project: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "LAST_LOOK_S", 0.1)
    launch = "sh -c 'echo no such partition >&2; exit 3' {script}"
    with allocation(project, launch) as there, pytest.raises(ScriptError, match=r"exit code 3.*no such partition"):
        there.machine(nothing)


def test_a_launch_command_that_is_not_there(project: Path) -> None:
    with pytest.raises(UsageError, match="cannot be started"), allocation(project, "nosuchbatch {script}"):
        pytest.fail("it was started")


def test_the_directives_of_the_users_job_script_are_the_jobs(project: Path) -> None:
    (project / "train.sbatch").write_text(
        "#!/bin/bash\n#SBATCH -N 4\n# a comment\n#SBATCH --time=1:00:00\npython train.py\n"
    )
    with allocation(project, "true {script}", ("bash", "train.sbatch")):
        text = (project / "job" / module.SCRIPT).read_text()
    assert text.splitlines()[:3] == ["#!/bin/sh", "#SBATCH -N 4", "#SBATCH --time=1:00:00"]


def test_an_array_of_the_users_job_script_is_not_the_jobs(project: Path) -> None:
    lines = {
        "#SBATCH --array=0-3 -N 2": "#SBATCH  -N 2",
        "#SBATCH --array 0-3%2": None,
        "#SBATCH -a 1,2": None,
        "#SBATCH -A team": "#SBATCH -A team",
        "#SBATCH -t 10": "#SBATCH -t 10",
        "#PBS -J 0-9": None,
        '#BSUB -J "name[1-4]"': None,
        "#BSUB -J name": "#BSUB -J name",
        "#$ -t 1-4": None,
    }
    (project / "train.sh").write_text("\n".join(["#!/bin/bash", "", *lines, "python train.py", "#SBATCH -N 4"]))
    with allocation(project, "true {script}", ("bash", "train.sh")):
        text = (project / "job" / module.SCRIPT).read_text()
    assert text.splitlines()[1:-1] == [kept for kept in lines.values() if kept is not None]


def test_the_head_of_a_large_file_alone_is_read(project: Path) -> None:
    with (project / "data.bin").open("wb") as file:
        file.truncate(1 << 36)  # 64 GiB of nothing: reading it as a whole would fail
    with allocation(project, "true {script}", ("bash", "data.bin")):
        assert (project / "job" / module.SCRIPT).read_text().splitlines()[1].startswith("cd ")


def test_of_several_workers_one_measures(project: Path) -> None:
    folder = project / "job"
    folder.mkdir()
    (folder / module.WORKER).touch()
    allocation_worker.main(folder)
    assert [path.name for path in folder.iterdir()] == [module.WORKER]


def test_modules_of_the_project_are_not_the_workers(project: Path) -> None:
    (project / "secrets.py").write_text("raise SystemExit('the project was imported')\n")
    (project / "autotune").mkdir()
    (project / "autotune" / "__init__.py").touch()
    with allocation(project) as there:
        assert there.machine(nothing)


def test_what_is_asked_is_its_users_alone(project: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "LAST_LOOK_S", 0.1)
    with allocation(project, "true {script}") as there, pytest.raises(ScriptError):
        measured(there, project)
    assert (project / "job" / "asked-1.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.train
def test_what_is_measured_ends_with_its_tuner(project: Path) -> None:
    (project / "train.py").write_text("import time\ntime.sleep(300)\n")
    with pytest.raises(KeyboardInterrupt), allocation(project) as there:
        threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        measured(there, project)
    assert time.monotonic() - began < 40
    assert there._child is not None and there._child.returncode == 0  # the worker went by itself
