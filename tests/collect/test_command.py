from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from autotune.collect import command
from autotune.collect.command import BOOT, PlannedCommand, environment, injected, plan_command
from autotune.errors import ScriptError, UsageError

PYTHON = "/env/bin/python"


@pytest.fixture
def cwd(tmp_path):
    for name in ("train.py", "run.sh", "pkg.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "launch").write_text("#!/bin/sh\n")
    (tmp_path / "launch").chmod(0o755)
    (tmp_path / "plain").write_text("#!/usr/bin/env zsh\n")
    (tmp_path / "start").write_text("#!/usr/bin/env python3\n")
    (tmp_path / "unbuffered").write_text("#!/usr/bin/env -S python3 -u -W ignore\n")
    (tmp_path / "alone").write_text("#!/usr/bin/python3 -I\n")
    (tmp_path / "flags.sh").write_text("#!/bin/sh -e\n")
    (tmp_path / "split.sh").write_text("#!/usr/bin/env -S bash -euo pipefail\n")
    (tmp_path / "mine.sh").write_text("#!/bin/sh -e\n")
    (tmp_path / "bare.sh").write_text("echo\n")
    (tmp_path / "lost.sh").write_text("#!/no/such/shell -e\n")
    for name in ("mine.sh", "bare.sh"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "notes.txt").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "argv", "script"),
    [
        (["train.py"], [PYTHON, "train.py"], "train.py"),
        (["train.py", "--lr", "1", "x.py"], [PYTHON, "train.py", "--lr", "1", "x.py"], "train.py"),
        (["python", "train.py"], [PYTHON, "train.py"], "train.py"),
        (["python3.12", "-u", "train.py", "-m"], [PYTHON, "-u", "train.py", "-m"], "train.py"),
        (["python", "train.py", "-c", "config.yaml"], [PYTHON, "train.py", "-c", "config.yaml"], "train.py"),
        (["python", "-W", "ignore", "-Xdev", "train.py"], [PYTHON, "-W", "ignore", "-Xdev", "train.py"], "train.py"),
        (["python", "-um", "pkg", "a"], [PYTHON, "-um", "pkg", "a"], "pkg.py"),
        (["python", "-"], [PYTHON, "-"], None),
        (["python", "-m", "pkg", "a"], [PYTHON, "-m", "pkg", "a"], "pkg.py"),
        (["python", "-c", "import x"], [PYTHON, "-c", "import x"], None),
        (["run.sh", "a"], ["bash", "run.sh", "a"], "run.sh"),
        (["./launch", "train.py"], ["./launch", "train.py"], "launch"),
        (["./plain", "a"], ["/usr/bin/env", "zsh", "./plain", "a"], "plain"),
        (["./start", "a"], [PYTHON, "./start", "a"], "start"),
        (["./unbuffered", "a"], [PYTHON, "-u", "-W", "ignore", "./unbuffered", "a"], "unbuffered"),
        (["./alone"], [*injected([PYTHON, "-I", "./alone"])], "alone"),
        (["./flags.sh", "a"], ["/bin/sh", "-e", "./flags.sh", "a"], "flags.sh"),
        (["flags.sh"], ["/bin/sh", "-e", "flags.sh"], "flags.sh"),
        (["split.sh"], ["/usr/bin/env", "-S", "bash", "-euo", "pipefail", "split.sh"], "split.sh"),
        (["./mine.sh", "a"], ["./mine.sh", "a"], "mine.sh"),
        (["mine.sh", "a"], ["/bin/sh", "-e", "mine.sh", "a"], "mine.sh"),
        (["./bare.sh"], ["bash", "./bare.sh"], "bare.sh"),
        (["-m", "pkg", "a"], [PYTHON, "-m", "pkg", "a"], "pkg.py"),
        (["env", "python", "train.py"], [PYTHON, "train.py"], "train.py"),
        (["sh", "run.sh"], ["sh", "run.sh"], "run.sh"),
        (["sh", "-c", "python train.py"], ["sh", "-c", "python train.py"], None),
    ],
)
def test_what_is_started(cwd, words, argv, script):
    assert plan_command(words, PYTHON, cwd) == PlannedCommand(tuple(argv), cwd / script if script else None)


@pytest.mark.parametrize(
    ("words", "what", "where"),
    [
        ([], "no script was given", ""),
        (["missing.py"], "no such script", "missing.py"),
        (["missing.sh"], "no such script", "missing.sh"),
        (["python", "missing.py"], "no such script", "missing.py"),
        (["python", "train"], "no such script", "train"),
        (["no-such-program", "x"], "no such script or program", "no-such-program"),
        (["./notes.txt"], "no such script or program", "./notes.txt"),
        (["./lost.sh"], "its first line names /no/such/shell, which does not exist", "./lost.sh"),
    ],
)
def test_what_cannot_be_started_is_said_before_anything_starts(cwd, words, what, where):
    with pytest.raises(UsageError, match=what) as caught:
        plan_command(words, PYTHON, cwd)
    assert caught.value.where == where
    assert caught.value.to_do


def test_assignments_in_front_are_the_environment_of_what_is_started(cwd):
    (cwd / "sub").mkdir()
    (cwd / "sub" / "train.py").write_text("")
    planned = plan_command(["CUDA_VISIBLE_DEVICES=", "A=x y", "train.py", "B=1"], PYTHON, cwd)
    assert planned.argv == (PYTHON, "train.py", "B=1")
    assert planned.variables == {"CUDA_VISIBLE_DEVICES": "", "A": "x y"}
    planned = plan_command(["env", "-C", "sub", "A=1", "python", "train.py"], PYTHON, cwd)
    assert (planned.argv, planned.cwd, planned.variables) == ((PYTHON, "train.py"), cwd / "sub", {"A": "1"})
    assert plan_command(["PATH=" + str(cwd), "launch"], PYTHON, cwd, {"PATH": "/nowhere"}).argv == ("launch",)


@pytest.mark.parametrize("words", [["my nb.ipynb"], ["python", "my nb.ipynb"], ["A=1", "my nb.ipynb"]])
def test_a_notebook_is_run_by_jupyter(cwd, words, monkeypatch):
    (cwd / "my nb.ipynb").write_text("{}")
    monkeypatch.setattr(command, "_missing_packages", lambda python: [])
    planned = plan_command(words, PYTHON, cwd)
    assert planned.argv[:2] == (PYTHON, "-c")
    assert "nbclient" in planned.argv[2]
    assert planned.argv[-2:] == ("--startup_timeout=600", "my nb.ipynb")
    assert planned.script == cwd / "my nb.ipynb"


def test_what_runs_notebooks_has_to_be_installed(cwd, monkeypatch):
    (cwd / "nb.ipynb").write_text("{}")
    monkeypatch.setattr(command, "_missing_packages", lambda python: ["nbclient", "ipykernel"])
    with pytest.raises(UsageError, match="needs nbclient and ipykernel") as caught:
        plan_command(["nb.ipynb"], PYTHON, cwd)
    assert caught.value.to_do.endswith(f"{PYTHON} -m pip install nbclient ipykernel")


def test_the_packages_are_those_of_the_notebooks_python(tmp_path):
    folder = tmp_path / "nbclient"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert "nbclient" not in command._missing_packages(str(python))
    assert "json" not in command._missing_packages(sys.executable)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nb.ipynb", "--lr", "1"], "takes no arguments: --lr 1"),
        (["torchrun", "nb.ipynb"], "torchrun runs no notebook"),
        (["uv", "run", "nb.ipynb"], "uv runs no notebook"),
        (["other.ipynb"], "no such script"),
    ],
)
def test_what_a_notebook_cannot_be_started_with(cwd, words, why):
    (cwd / "nb.ipynb").write_text("{}")
    with pytest.raises(UsageError, match=why):
        plan_command(words, PYTHON, cwd)


def test_a_notebook_that_jupyter_is_given_is_known(cwd):
    (cwd / "nb.ipynb").write_text("{}")
    planned = plan_command(["launch", "execute", "nb.ipynb"], PYTHON, cwd, {"PATH": str(cwd)})
    assert (planned.argv, planned.script) == (("launch", "execute", "nb.ipynb"), cwd / "nb.ipynb")


def test_an_option_that_autotune_does_not_have_is_no_program(cwd):
    with pytest.raises(UsageError, match="autotune has no such option") as caught:
        plan_command(["--lr", "1", "train.py"], PYTHON, cwd)
    assert caught.value.where == "--lr"


def test_a_program_is_looked_for_on_the_given_path(cwd):
    assert plan_command(["launch"], PYTHON, cwd, {"PATH": str(cwd)}).argv == ("launch",)
    with pytest.raises(UsageError):
        plan_command(["launch"], PYTHON, cwd, {"PATH": "/nowhere"})


@pytest.fixture
def environments(tmp_path):
    """Two environments with a Python; torchrun is a console script of the first only, accelerate of both."""
    for name in ("one", "two"):
        (tmp_path / name / "bin").mkdir(parents=True)
    one, two = (tmp_path / name / "bin" for name in ("one", "two"))
    files = {
        one / "python": "#!/bin/sh\n",
        two / "python": "#!/bin/sh\n",
        one / "torchrun": f"#!{one}/python\n",
        one / "accelerate": f"#!{one}/python\n",
        two / "accelerate": f"#!{two}/python\n",
        one / "launch": "#!/bin/sh\n",
    }
    for file, text in files.items():
        file.write_text(text)
        file.chmod(0o755)
    return one, two


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["torchrun", "train.py"], "does not reach torchrun, which runs {one}/python; to measure in {env}, "
         "install it there, beside {two}/python"),
        (["accelerate", "launch", "train.py"], "does not reach accelerate, which runs {one}/python; to "
         "measure in {env}, give its path: {two}/accelerate"),
        (["launch", "train.py"], None),
        (["train.py"], None),
    ],
)  # fmt: skip
def test_a_console_script_of_another_environment_is_named(cwd, environments, words, expected, capsys):
    one, two = environments
    planned = plan_command(words, str(two / "python"), cwd, {"PATH": str(one)})
    assert planned.argv[-len(words) :] == tuple(words)
    said = "" if expected is None else f"autotune: --python {expected.format(one=one, two=two, env=two.parent)}\n"
    assert capsys.readouterr().err == said


def test_a_console_script_of_the_same_environment_needs_no_hint(cwd, environments, capsys):
    one, _ = environments
    plan_command(["torchrun", "train.py"], str(one / "python3.11"), cwd, {"PATH": str(one)})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("sbatch", "srun autotune diagnose -- "),
        ("qsub", "    autotune diagnose -- "),
        ("bsub", "    autotune diagnose -- "),
        ("condor_submit", "    autotune diagnose -- "),
    ],
)
def test_a_submitter_is_answered_with_the_line_for_the_job_script(cwd, program, line):
    with pytest.raises(ScriptError, match="only submits a job") as caught:
        plan_command([program, "job.sh"], PYTHON, cwd)
    assert line in caught.value.to_do


@pytest.mark.parametrize(("theirs", "expected"), [(None, f"{BOOT}"), ("", f"{BOOT}"), ("/a:/b", f"{BOOT}:/a:/b")])
def test_the_probe_stands_first_on_the_users_pythonpath(tmp_path, theirs, expected):
    before = {"HOME": "/home/me", **({"PYTHONPATH": theirs} if theirs is not None else {})}
    after = environment(before, tmp_path / "request.json")
    assert after == {"HOME": "/home/me", "PYTHONPATH": expected, "AUTOTUNE_REQUEST": str(tmp_path / "request.json")}


@pytest.mark.parametrize(
    "argv",
    [
        [PYTHON, "train.py", "-I"],
        [PYTHON, "-u", "train.py"],
        [PYTHON, "-m", "pkg"],
        [PYTHON, "-OO", "train.py"],
        [PYTHON, "-I"],
        [PYTHON, "-I", "-m", "pkg"],
        [PYTHON, "-Ic", "import x"],
        [PYTHON, "-WIgnore", "train.py"],
    ],
)
def test_a_command_that_reads_the_environment_stays_as_it_is(argv):
    assert injected(argv) == tuple(argv)


@pytest.mark.parametrize("flags", [["-I"], ["-E"], ["-u", "-sE"], ["-Iu"], ["-S"], ["-W", "ignore", "-I"]])
def test_a_command_that_ignores_the_environment_gets_the_probe_another_way(flags):
    changed = injected([PYTHON, *flags, "train.py", "--lr", "1"])
    assert changed[: 2 + len(flags)] == (PYTHON, *flags, "-c")
    assert str(BOOT) in changed[2 + len(flags)]
    assert changed[3 + len(flags) :] == ("train.py", "--lr", "1")


SEEN = f"""import os, sys
ours = [entry for entry in sys.path if os.path.abspath(entry).startswith({str(BOOT.parent.parent)!r})]
print(__name__, sys.argv, ours, "sitecustomize" in sys.modules)
"""
"""What a script sees. Of its sys.path the entries in the package: the checkout itself may have any name."""


@pytest.mark.parametrize("flags", [["-I"], ["-E"]])
def test_the_other_way_runs_the_script_as_main(tmp_path, flags):
    script = tmp_path / "train.py"
    script.write_text(SEEN)
    argv = injected([sys.executable, *flags, str(script), "--lr", "1"])
    shown = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env={}, check=True)
    assert shown.stdout.startswith(f"__main__ {[str(script), '--lr', '1']} []")
    assert shown.stderr == ""


SYSTEM_HAS_ONE = importlib.util.find_spec("sitecustomize") is not None
"""Debian's Python has a sitecustomize of its own."""


@pytest.mark.parametrize("theirs", [None, "print('theirs')"])
def test_the_bootstrap_leaves_no_name_behind(tmp_path, theirs):
    (tmp_path / "train.py").write_text(SEEN)
    (tmp_path / "site").mkdir()
    if theirs is not None:
        (tmp_path / "site" / "sitecustomize.py").write_text(theirs)
    environ = {"PYTHONPATH": f"{BOOT}:{tmp_path / 'site'}"}
    shown = subprocess.run(
        [sys.executable, "-s", "train.py"], capture_output=True, text=True, cwd=tmp_path, env=environ, check=True
    )
    lines = shown.stdout.splitlines()
    assert lines[-1] == f"__main__ ['train.py'] [] {theirs is not None or SYSTEM_HAS_ONE}"
    assert lines[:-1] == (["theirs"] if theirs else [])
    assert shown.stderr == ""
