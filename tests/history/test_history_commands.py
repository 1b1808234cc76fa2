"""What is known of earlier commands, and what is not taken from a project."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from itertools import count
from pathlib import Path

import pytest

from autotune import state
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.history import commands
from autotune.history.commands import StoredCommand
from autotune.patch.file import NAME


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    for name in ("train.py", "other.py", "src/main.py"):
        (root / name).write_text("")
    return root


SECONDS = count(1_760_000_000)


def made(root: Path, *words: str, cwd: Path | None = None, patch: bool = True, shown: tuple[str, ...] = ()) -> Path:
    """A run of this command, a second later than the one before: the last one."""
    run = artefacts.new_run(root, next(SECONDS))
    (run / artefacts.MANIFEST).write_text("{}")
    if patch:
        (run / NAME).write_text("")
    artefacts.mark_last(run, cwd)
    commands.store(run, StoredCommand(run.name, words, cwd or root, None), shown or words)
    return run


def test_a_verb_without_a_command_takes_that_of_the_last_run(root: Path) -> None:
    older = made(root, "other.py", "--lr", "1")
    newer = made(root, "A=x y", "python", "main.py", cwd=root / "src")
    assert commands.command("last", "verify", root / "src").words == ("A=x y", "python", "main.py")
    assert str(commands.command(newer.name, "tune", root)) == f"A='x y' python main.py (in {root / 'src'})"
    assert commands.command(older.name, "verify", root) == StoredCommand(older.name, ("other.py", "--lr", "1"), root)


def test_a_command_that_may_hold_a_secret_is_not_kept(root: Path) -> None:
    run = made(root, "train.py", "--token", "x", shown=("train.py", "--token", "***"))
    with pytest.raises(UsageError, match=f"the command of run {run.name} is not known"):
        commands.command("last", "verify", root)
    assert "--token" not in "".join(one.read_text() for one in state.project(root).rglob("*") if one.is_file())


def test_without_a_run_the_usage_is_said(root: Path) -> None:
    with pytest.raises(UsageError, match="no script was given, and this project has no run yet") as error:
        commands.command("last", "verify", root)
    assert error.value.to_do == "Type: autotune verify train.py [ARGS...]"


def test_what_lies_in_a_project_starts_nothing(root: Path, tmp_path: Path) -> None:
    """A copied project, whose folder of runs came along; and a run.json that names another command."""
    run = made(root, "train.py")
    (run / artefacts.MANIFEST).write_text(json.dumps({"run": {"command": ["evil.py"]}}))
    assert commands.command("last", "verify", root).words == ("train.py",)
    copied = tmp_path / "copied"
    shutil.copytree(root, copied)
    with pytest.raises(UsageError, match="is not known"):
        commands.command("last", "verify", copied)
    elsewhere = copied / ".autotune" / "runs" / run.name
    state.register_folder(root, elsewhere)
    assert state.other_folders(root) is None, "only a run that was made here"


def test_a_command_finds_its_own_run(root: Path) -> None:
    own = made(root, "train.py", "--lr", "1")
    made(root, "other.py")
    assert commands.run_of_command(("other.py", "--epochs", "2"), root) == "last"
    assert commands.run_of_command(("python", "../train.py"), root / "src") == str(own)
    assert commands.run_of_command(("A=1", "python", str(root / "train.py")), root.parent) == "last", (
        "nothing ran there"
    )
    with pytest.raises(UsageError, match="the last diagnosis is of another command") as error:
        commands.run_of_command(("src/main.py", "a b"), root)
    assert error.value.where == "other.py"
    assert error.value.to_do == "Diagnose this command first: autotune diagnose -- src/main.py 'a b'"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("trl sft --model a", "trl dpo --model a"),
        ("python -m trl sft --model a", "python -m trl dpo --model a"),
        ("litgpt finetune_lora x", "litgpt pretrain x"),
        ("bash -c 'python train.py'", "bash -c 'python other.py'"),
        ("bash -c 'python $0' train.py", "bash -c 'python $0' other.py"),
        ("python -c 'import a'", "python -c 'import b'"),
        ("tune run full_finetune --config a", "tune run lora_finetune --config a"),
        ("tune run --nproc_per_node 2 full_finetune", "tune run --nproc_per_node 2 lora_finetune"),
        ("torchrun --no-python ./a", "torchrun --no-python ./b"),
        ("make train", "make evaluate"),
        ("{tool} train --lr 1", "{tool} pre-train --lr 1"),
    ],
)
def test_the_verbs_and_recipes_of_a_program_are_commands_of_their_own(root: Path, one: str, other: str) -> None:
    tool = root / "bin" / "mine"
    tool.parent.mkdir()
    tool.write_text(f"#!{tool.parent}/python\nfrom mine.cli import main\nmain()\n")
    tool.chmod(0o755)
    first, second = (tuple(shlex.split(line.format(tool=tool))) for line in (one, other))
    own = made(root, *first)
    made(root, *second)
    assert commands.run_of_command(first, root) == str(own)
    assert commands.run_of_command(second, root) == "last"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("trl sft --model a", "/env/bin/trl sft --model b"),
        ("trl sft --model a", "python -m trl sft --model b"),
        ("tune run full_finetune --config a", "tune run --nproc_per_node 2 full_finetune --config b"),
        ("bash -c 'python train.py'", "bash -lc 'python train.py'"),
        ("python -m src.main --lr 1", "python src/main.py --lr 2"),
        ("make train", "make train LR=1"),
        ("mine config.yaml", "mine other.yaml"),
    ],
)
def test_other_arguments_are_the_same_command(root: Path, one: str, other: str) -> None:
    made(root, *shlex.split(one))
    assert commands.run_of_command(shlex.split(other), root) == "last"


def test_a_run_that_proposed_nothing_is_not_its_own(root: Path) -> None:
    made(root, "train.py", patch=False)
    made(root, "other.py")
    with pytest.raises(UsageError, match="another command"):
        commands.run_of_command(("train.py",), root)


def test_the_last_run_of_a_command_that_was_typed_elsewhere(root: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    run = made(root, "../project/train.py", cwd=here)
    assert artefacts.resolve("last", here) == run.resolve()
    assert artefacts.resolve(run.name, here) == run.resolve()
    assert artefacts.resolve("last", root) == run
    assert commands.command("last", "verify", here).cwd == here
    own = made(here, "x.py")
    assert artefacts.resolve("last", here) == own, "the newest of both"


def test_last_is_the_newest_run_that_was_typed_in_this_folder(root: Path) -> None:
    for name in ("a", "b"):
        (root / name).mkdir()
        (root / name / "train.py").write_text("")
    here = made(root, "train.py", cwd=root / "a")
    there = made(root, "train.py", "--key", "x", cwd=root / "b", shown=("train.py", "--key", "***"))
    assert artefacts.resolve("last", root / "a") == here
    assert artefacts.resolve("last", root / "b") == there
    assert artefacts.resolve("last", root) == there, "none was typed there"
    assert commands.run_of_command(("train.py",), root / "a") == "last"
    command = f"cd {root / 'b'} && autotune apply"
    assert commands.newer_elsewhere("apply", root / "a").endswith(f" ago, was started in another folder: {command}")
    assert commands.newer_elsewhere("apply", root / "b") == commands.newer_elsewhere("apply", root) == ""


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "under 0.1 s ago"), (200, "3 min 20 s ago"), (86400 * 3, "3 days ago")]
)
def test_how_old_a_run_is(seconds: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_760_000_000
    monkeypatch.setattr("time.time", lambda: float(now))
    assert commands.age(time.strftime("%Y%m%d-%H%M%S-abcdef", time.gmtime(now - seconds))) == said


def test_a_run_without_a_time_is_named() -> None:
    assert commands.age("mine") == "run mine"
