"""The commands that README and docs tell people to type are those of the command line that there is.

What only reads is run, in a folder with one real diagnosis. Of what starts a training or writes files the words are
parsed by the same click commands: verb, options and kinds of values; a long test runs it, too, but for what `NEEDS`
names. Of other programs of this repository the file and its options exist; programs of others are left out by name.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from chrome import training
from markdown_pages import COMMAND_LINES, NO_COMMANDS, ROOT, SESSION, Block, blocks, code_spans, pages
from verified_builders import verified

from autotune.cli import VERBS, autotune, run
from autotune.collect import artefacts
from autotune.history import results
from autotune.invocation import invoked
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.patch.file import NAME, dumps
from autotune.patch.journal import sha256

OTHERS = {
    "accelerate": "a launcher of Hugging Face",
    "apptainer": "runs a container",
    "cat": "shows a file",
    "cd": "of the shell",
    "cp": "copies a file",
    "docker": "runs a container",
    "eval": "of the shell",
    "git": "version control",
    "kubectl": "Kubernetes",
    "pip": "installs packages",
    "pipx": "installs programs",
    "rsync": "copies files to another machine",
    "sbatch": "Slurm",
    "source": "of the shell",
    "srun": "Slurm",
    "ssh": "another machine",
    "sudo": "as root",
    "torchrun": "a launcher of torch",
    "trl": "a program of TRL",
    "uv": "installs packages",
}
"""Programs of others, which are not looked at."""

EXEMPT: dict[str, str] = {}
"""Blocks whose commands are not checked, as "page: first line", and why."""

NEEDS = {
    "--job": "a folder that several nodes share: tests/diagnose/test_multi_node.py",
    "--launch": "a scheduler: tests/tune",
    "--patch": "two patches that were applied: tests/verify",
    "--pid": "a training that runs: tests/attach",
    "--python": "another environment: tests/collect/test_command.py",
    "--study": "a database, or several machines: tests/tune",
    "./run.sh": "the project of its tutorial: tests/matrix",
    "gpuhunt": "a catalogue of prices from the network: tests/fit/test_fit_market.py",
    "mpirun": "MPI",
    "pkg.train": "jsonargparse, for the command line of Lightning: tests/matrix",
    "train.ipynb": "a kernel: tests/diagnose/test_notebook_run.py",
    "trl": "TRL: tests/matrix",
}
"""Words of commands that are not run here, with what they need and where something like them is run."""

OF_CONTRIBUTORS = "fixtures/"
"""Pages whose commands are typed in this repository; tests/fixtures runs these scripts."""

PRICED = ("a100-80", "a100-40", "h100-80")
"""Cards with a price in the file that pages name."""

IN_A_TEST = {"verify": ("--budget", "3m"), "tune": ("--trials", "1")}
"""What these get in place of --budget: as long as a test has, on a machine that is busy with others."""

LOCKED = ("diagnose", "fit", "tune", "verify")
"""These wait for no other measurement here."""

READS_WITH = {"apply": ("--diff",), "diagnose": ("--load", "--trace"), "fit": ("--load",)}
"""The options with which a verb that starts or writes something only reads."""

MAY_FAIL = ("check", "fit")
"""Exit code 1 is an answer of these: a finding, or nothing that fits."""

PROJECTS = ROOT / "fixtures" / "projects"
RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
OPTIONAL = re.compile(r"\[[A-Z]+\]")
"""[RUN] and [ARGS] may be left out."""


@dataclass(frozen=True)
class Workshop:
    """The folder of a user who has diagnosed train.py: `run` is that run."""

    folder: Path
    run: str

    def typed(self, words: tuple[str, ...]) -> list[str]:
        """The words as this user types them: their own run, nothing optional."""
        return [RUN_ID.sub(self.run, word) for word in words if not OPTIONAL.fullmatch(word)]


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """One for all that only reads."""
    return _made(tmp_path_factory.mktemp("workshop"))


def _made(folder: Path) -> Workshop:
    """A repository with what the pages name: scripts, configs, traces, prices, a stored run and its Recording."""
    shutil.copytree(PROJECTS / "lightning_cli", folder, dirs_exist_ok=True)  # configs/ and the package pkg/
    shutil.copy(PROJECTS / "hf_flags" / "run.sh", folder)
    (folder / "job.sbatch").write_text("#!/bin/bash\n#SBATCH --gres=gpu:4\nsrun torchrun --nproc-per-node 4 train.py\n")
    shutil.copy(folder / "job.sbatch", folder / "train.sbatch")
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": "import torch\n"}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (folder / "train.ipynb").write_text(json.dumps(notebook))
    for name in ("train.py", "other.py"):
        shutil.copy(PROJECTS / "raw_argparse" / "train.py", folder / name)
    shutil.copy(ROOT / "fixtures" / "configs" / "trl.yaml", folder / "sft.yaml")
    shutil.copytree(ROOT / "benchmarks" / "scripts" / "fit", folder / "benchmarks" / "scripts" / "fit")
    (folder / "prices.toml").write_text(
        "".join(f"[{card}]\nusd_per_hour = 1.89\ndate = 2026-11-20\n" for card in PRICED)
    )
    (folder / "folder").mkdir()
    text = training().text().encode()
    for file in ("trace.json.gz", "folder/rank0.json.gz"):
        (folder / file).write_bytes(gzip.compress(text))
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for words in (
        ("init", "-q"),
        ("add", "."),
        ("commit", "-qm", "x"),
        ("update-ref", "refs/remotes/origin/main", "HEAD"),
    ):
        subprocess.run([*git, *words], cwd=folder, check=True)
    measured = [sys.executable, "-m", "autotune", "diagnose", "--steps", "5", "--quiet", "--no-lock", "train.py"]
    subprocess.run(measured, cwd=folder, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    (run_folder,) = (folder / ".autotune" / "runs").iterdir()
    shutil.copytree(folder / ".autotune", folder / "team" / "project" / ".autotune")
    _propose_a_change(run_folder, folder)
    results.save_verification(run_folder, verified())
    for name in ("recording.json", "baseline.json"):
        shutil.copy(next(run_folder.glob("recording-*.json")), folder / name)
    return Workshop(folder, run_folder.name)


def _propose_a_change(run_folder: Path, folder: Path) -> None:
    """Whether a diagnosis proposes one depends on how busy the machine is."""
    config = folder / "configs" / "base.yaml"
    edit = Edit("configs/base.yaml", "data.num_workers", "0", "2", sha256=sha256(config.read_bytes()))
    change = PatchChange("loader.num_workers", "loader#train", 0, 2, ("DL001",), Effect.EQUIVALENT, "1.5x", (edit,))
    artefacts.write_patch(run_folder / NAME, dumps(Patch(str(folder), run_folder.name, ("train.py",), (change,))))


def checked_blocks() -> Iterator[Block]:
    for page in pages():
        for block in blocks(page):
            if f"{page}: {block.text.splitlines()[0].strip()}" not in EXEMPT and any(block.commands()):
                yield block


BLOCKS = list(checked_blocks())


def option_names(command: click.Command) -> set[str]:
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)}


def verb_of(words: tuple[str, ...]) -> click.Command:
    command = autotune.get_command(click.Context(autotune), words[1])
    assert command is not None, f"there is no autotune {words[1]}"
    return command


def only_reads(words: tuple[str, ...]) -> bool:
    return VERBS[words[1]].does == "reads" or any(option in words for option in READS_WITH.get(words[1], ()))


def check_words(words: tuple[str, ...], folder: Path) -> None:
    """The words are parsed as the command line does. Raises click's own error for a wrong one."""
    command = verb_of(words)
    context = command.make_context(words[1], list(words[2:]), obj=words[1:])
    script = context.params.get("command", ())
    if not script:
        return
    assert not script[0].startswith("-"), f"{script[0]} is no option of autotune {words[1]}"
    called = invoked(script, folder)
    assert not option_names(command) & set(called.arguments), "an option of autotune stands behind the script"
    assert called.file is None or called.file.exists() or (ROOT / script[0]).exists(), f"{called.file} does not exist"
    assert called.file is not None or Path(called.program).name in OTHERS, called.program


def check_program(words: tuple[str, ...], folder: Path) -> None:
    """`python -m benchmarks.accuracy --subset`, `python benchmarks/fit.py`, `make test`: file, options, target. What
    lies in the user's `folder` is theirs."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(words[1:]) <= set(targets)
    elif words[1:3] != ("-m", "venv") and not (folder / words[1]).is_file():
        named = words[2].replace(".", "/") if words[1] == "-m" else words[1]
        found = [file for end in ("", ".py", "/__main__.py") if (file := ROOT / f"{named}{end}").is_file()]
        assert found, f"{named} does not exist"
        source = "".join(file.read_text(encoding="utf-8") for file in (*found, *found[0].parent.glob("*.py")))
        assert [word for word in words[2:] if word.startswith("--") and f'"{word}"' not in source] == []


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_command_exists(block: Block, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workshop.folder)
    for words in block.commands():
        program = Path(words[0]).name
        if program == "autotune":
            check_words((words[0], *workshop.typed(words[1:])), workshop.folder)
        elif program in ("python", "make"):
            check_program(words, workshop.folder)
        else:
            assert program in OTHERS, f"{block}: whose is {program}?"


@pytest.mark.train
@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS}))
def test_what_only_reads_is_run(
    page: str, workshop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of the page: a baseline is written before it is read. The last run of another page is not ours."""
    monkeypatch.chdir(workshop.folder)
    artefacts.mark_last(workshop.folder / ".autotune" / "runs" / workshop.run)
    for block in (block for block in BLOCKS if block.page == page):
        for words in block.commands():
            if words[0] == "autotune" and only_reads(words):
                code = run(workshop.typed(words[1:]))
                said = capsys.readouterr()
                assert code == 0 or (code == 1 and words[1] in MAY_FAIL), f"{block}: {words}\n{said.err}"
                assert "Traceback" not in said.err


def what_trains_or_writes() -> list[tuple[str, ...]]:
    """The commands of all pages that are run by nothing above, each once, in the order of the pages."""
    found = (words for block in BLOCKS if not block.page.startswith(OF_CONTRIBUTORS) for words in block.commands())
    ours = (words for words in found if words[0] == "autotune" and not only_reads(words))
    return [words for words in dict.fromkeys(ours) if not any(word in NEEDS for word in words)]


def in_a_test(words: list[str]) -> tuple[str, ...]:
    """The words with what a test has in place of --budget and its value, beside other measurements."""
    at = words.index("--budget") if "--budget" in words else 1
    rest = words[at + 2 :] if "--budget" in words else words[1:]
    shorter = (*words[1:at], *IN_A_TEST[words[0]], *rest) if words[0] in IN_A_TEST else words[1:]
    return (words[0], *(["--no-lock"] if words[0] in LOCKED else []), *shorter)


@pytest.mark.train
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_what_trains_or_writes_is_run(tmp_path: Path) -> None:
    """In one folder, in the order of the pages: what is applied is undone by a later page, or is there already.

    A budget that cannot suffice on a busy machine is refused with the one that does: that is an answer as well.
    """
    workshop = _made(tmp_path)
    failed = []
    for typed in dict.fromkeys(in_a_test(workshop.typed(words[1:])) for words in what_trains_or_writes()):
        if typed[0] in ("apply", "verify"):
            artefacts.mark_last(workshop.folder / ".autotune" / "runs" / workshop.run)  # it proposes a change
        active = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # as where an environment is active
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": active}
        ended = subprocess.run(
            [sys.executable, "-m", "autotune", *typed],
            cwd=workshop.folder,
            input="y\n",
            text=True,
            capture_output=True,
            env=environ,
            check=False,
        )
        # 1 is an answer: nothing fits, or --require-speedup is not met.
        is_answer = ended.returncode == 0 or (ended.returncode == 1 and typed[0] in ("fit", "verify"))
        if not is_answer and not (typed[0] in IN_A_TEST and "This suffices" in ended.stderr):
            failed.append(f"{' '.join(typed)}: {ended.returncode}: {ended.stderr[-500:]}")
    assert not failed, "\n".join(failed)


def test_only_what_needs_something_else_is_not_run() -> None:
    found = what_trains_or_writes()
    assert {words[1] for words in found} == {"apply", "diagnose", "fit", "tune", "undo", "verify", "watch"}
    assert len(found) > 20
    everything = {word for block in BLOCKS for words in block.commands() for word in words}
    assert set(NEEDS) <= everything


def test_enough_is_run_and_nothing_that_trains_or_writes() -> None:
    found = [words for block in BLOCKS for words in block.commands() if words[0] == "autotune"]
    assert {words[1] for words in found if only_reads(words)} >= {
        "check",
        "report",
        "trace",
        "apply",
        "diagnose",
        "fit",
    }
    assert all("--diff" in words for words in found if only_reads(words) and VERBS[words[1]].does == "writes")
    assert len(found) > 40


@pytest.mark.parametrize("page", pages())
def test_the_language_of_every_block_is_known(page: str) -> None:
    """A block without one may hold commands that nobody checks."""
    known = (COMMAND_LINES, SESSION, "yaml", *NO_COMMANDS)
    assert [str(block) for block in blocks(page) if block.language not in known] == []


@pytest.mark.parametrize("page", [page for page in pages() if page != "CHANGELOG.md"])
def test_commands_within_sentences_exist(page: str) -> None:
    """Verb and options alone: what stands behind them is a placeholder as often as not. A changelog names old ones."""
    for span in code_spans(page):
        words = span.split()
        if words[:1] == ["autotune"] and re.match("[a-z]", "".join(words[1:2])):
            known = option_names(verb_of(tuple(words)))
            own = [word for word in words[2:] if re.match(r"--[a-z]", word)]
            assert [word for word in own if word.partition("=")[0] not in known] == [], span


def test_exempt_blocks_exist_and_say_why() -> None:
    firsts = {f"{page}: {block.text.splitlines()[0].strip()}" for page in pages() for block in blocks(page)}
    assert set(EXEMPT) <= firsts
    assert all(EXEMPT.values())


@pytest.mark.parametrize(
    "line",
    [
        "autotune diagnos train.py",
        "autotune diagnose --stpes 3 train.py",
        "autotune diagnose --steps many train.py",
        "autotune diagnose gone.py",
        "autotune diagnose train.py --steps 3",
        "autotune report --format pdf",
        "autotune fit --on a100-81 train.py --batch 4",
        "autotune check --max",
    ],
)
def test_a_wrong_command_is_found(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    (words,) = Block("x.md", 1, COMMAND_LINES, f"{line}   # why\n").commands()
    with pytest.raises((AssertionError, click.UsageError)):
        check_words(words, tmp_path)


def test_a_wrong_program_is_found(tmp_path: Path) -> None:
    for words in (("make", "gone"), ("python", "benchmarks/gone.py"), ("python", "benchmarks/fit.py", "--gone")):
        with pytest.raises(AssertionError):
            check_program(words, tmp_path)
