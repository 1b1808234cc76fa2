"""The core alone: without the packages of the extra "train", and without what other systems than Linux lack."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from autotune import requirements
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.patch.file import NAME, dumps
from autotune.patch.journal import sha256

SCRIPT = b"workers = 0\n"

CORE = """
import sys

class Finder:
    def __init__(self, found):
        self.found = found

    def find_spec(self, name, path=None, target=None):
        is_hidden = name.partition(".")[0] in HIDDEN
        return None if is_hidden else self.found.find_spec(name, path, target)

HIDDEN = set("jinja2 markupsafe numpy optuna psutil pynvml rich sqlalchemy".split())
sys.meta_path[:] = map(Finder, sys.meta_path)
"""
"""The interpreter of someone who installed the core: the packages that are there look as if they were not."""

WINDOWS = """
# What is imported here finds out by itself what the system has.
import click, ctypes, importlib.util, os, platform, shutil, signal, socket, subprocess, tempfile, traceback

HIDDEN |= set("fcntl grp posix pty pwd resource termios tty".split())
for name in HIDDEN & set(sys.modules):
    del sys.modules[name]
OF_OS = '''O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK ST_NOSUID ST_RDONLY WNOHANG chown fork getegid geteuid getgid
    getgroups getloadavg getpgid getuid killpg mkfifo pread pwrite sched_getaffinity sched_setaffinity setsid statvfs
    sysconf uname wait waitpid'''
OF_SIGNAL = "ITIMER_REAL ITIMER_VIRTUAL SIGALRM SIGCONT SIGHUP SIGKILL SIGPIPE SIGSTOP SIGVTALRM setitimer"
for module, names in ((os, OF_OS), (signal, OF_SIGNAL)):
    for name in names.split():
        delattr(module, name)
sys.platform = "win32"
"""
"""What Windows lacks is not there, and sys.platform says so. Paths and files are still those of this system."""


@pytest.fixture
def project(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script with a patch of its last run, of a user who has no other projects."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    (tmp_path / "train.py").write_bytes(SCRIPT)
    edit = Edit("train.py", "workers", "0", "4", sha256=sha256(SCRIPT))
    change = PatchChange("loader.num_workers", "loader#train", 0, 4, ("DL001",), Effect.EQUIVALENT, "1.5x", (edit,))
    folder = artefacts.new_run(tmp_path)
    (folder / "recording-1.json").write_text("{}")
    artefacts.write_patch(folder / NAME, dumps(Patch(str(tmp_path), folder.name, ("train.py",), (change,))))
    artefacts.mark_last(folder)
    return tmp_path


def autotune(words: str, cwd: Path, system: str = "") -> subprocess.CompletedProcess[str]:
    package = Path(requirements.__file__).parents[1]
    start = f"sys.path.insert(0, {str(package)!r})\nfrom autotune.cli import main\nmain()\n"
    command = [sys.executable, "-c", f"{CORE}{system}{start}", *words.split()]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("system", ["", WINDOWS], ids=["core", "core on Windows"])
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("check .", "1 file"),
        ("explain DL001", "batches-prepared-in-the-training-process"),
        ("rules", "DL001"),
        ("apply --diff", "+workers = 4"),
        ("diagnose --help", "COMMAND"),
    ],
)
def test_what_does_not_measure_starts(words: str, says: str, system: str, project: Path) -> None:
    ran = autotune(words, project, system)
    assert ran.returncode == 0, ran.stderr
    assert says in ran.stdout


@pytest.mark.parametrize("words", ["diagnose train.py", "verify train.py", "tune train.py", "check . --env"])
def test_a_verb_whose_packages_are_missing_says_what_to_install(words: str, project: Path) -> None:
    ran = autotune(words, project)
    missing = "jinja2, numpy, optuna, psutil, nvidia-ml-py, rich"
    assert ran.returncode == 2
    assert ran.stderr == (
        f"autotune: {sys.executable}: packages of the extra are not installed: {missing}\n"
        f'Install them: {sys.executable} -m pip install "autotune-advisor[train]"\n'
    )


@pytest.mark.parametrize("words", ["diagnose train.py", "verify train.py", "tune train.py"])
def test_measuring_needs_linux(words: str, project: Path) -> None:
    ran = autotune(words, project, WINDOWS)
    assert ran.returncode == 2
    assert ran.stderr == f"autotune: win32: measuring needs Linux\n{requirements.ELSEWHERE}\n"


def test_where_nothing_can_be_locked_nothing_is_written(project: Path) -> None:
    ran = autotune("apply --yes", project, WINDOWS)
    assert ran.returncode == 2
    assert (
        "files are written on Linux and macOS only\nMake the changes that `autotune apply --diff` shows" in ran.stderr
    )
    assert (project / "train.py").read_bytes() == SCRIPT


def test_the_core_writes_and_takes_back(project: Path) -> None:
    assert autotune("apply --yes", project).returncode == 0
    assert (project / "train.py").read_bytes() == b"workers = 4\n"
    assert autotune("undo", project).returncode == 0
    assert (project / "train.py").read_bytes() == SCRIPT


def test_here_is_all_that_measuring_needs_but_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements.check()
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(UsageError, match="measuring needs Linux"):
        requirements.check()


def test_the_extra_brings_what_is_asked_for() -> None:
    file = Path(__file__).parents[2] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    extra = {name.partition(">=")[0] for name in project["optional-dependencies"]["train"]}
    assert extra == set(requirements.PACKAGES.values())
    assert not extra & {name.partition(">=")[0] for name in project["dependencies"]}
