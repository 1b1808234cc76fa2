"""autotune apply and undo as a person types them, and the whole way from a measurement to edited files and back."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from autotune import state
from autotune.cli import run
from autotune.collect import artefacts
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.patch.file import NAME, dumps
from autotune.patch.journal import sha256

SCRIPT = b"workers = 0\n"
EDIT = Edit("train.py", "workers", "0", "4", sha256=sha256(SCRIPT))
WORKERS = PatchChange(
    "loader.num_workers", "loader#train", 0, 4, ("DL001",), Effect.EQUIVALENT, "1.5x (1.2 to 1.6), measured", (EDIT,)
)
PADDING = PatchChange(
    "data.padding", "run", "max_length", "longest", ("BA005",), Effect.EQUIVALENT, by_hand="padding = longest: why"
)


@pytest.fixture
def project(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a user who has no other projects."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    (tmp_path / "train.py").write_bytes(SCRIPT)
    monkeypatch.chdir(tmp_path)
    keep(tmp_path, WORKERS, PADDING)
    return tmp_path


def keep(project: Path, *changes: PatchChange, command: tuple[str, ...] = ("train.py", "--bs", "8")) -> None:
    folder = artefacts.new_run(project)
    (folder / "recording-1.json").write_text("{}")
    artefacts.write_patch(folder / NAME, dumps(Patch(str(project), folder.name, command, changes)))
    artefacts.mark_last(folder)


def test_apply_shows_what_it_writes_and_undo_takes_it_back(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--yes"]) == 0
    assert capsys.readouterr().out == (
        "DL001 loader.num_workers: 0 -> 4 (equivalent)  1.5x (1.2 to 1.6), measured\n"
        "BA005 data.padding: max_length -> longest (equivalent): not written, padding = longest: why\n"
        "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-workers = 0\n+workers = 4\n"
        "Wrote 1 file. `autotune undo 1` reverts it.\n"
    )
    assert (project / "train.py").read_bytes() == b"workers = 4\n"
    assert run(["undo", "1"]) == 0
    assert capsys.readouterr().out.startswith(f"Undid patch 1 of {project} (1 of 2 changes of run ")
    assert (project / "train.py").read_bytes() == SCRIPT
    assert run(["undo"]) == 2


def test_diff_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--diff"]) == 0
    out = capsys.readouterr().out
    assert "+workers = 4\n" in out
    assert out.endswith("Nothing was written: this was --diff.\n")
    assert (project / "train.py").read_bytes() == SCRIPT
    assert not (state.project(project) / "patches").exists()


@pytest.mark.parametrize("has_crlf", [False, True])
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_applies_the_diff_to_a_copy_of_the_project(
    has_crlf: bool, project: Path, tmp_path: Path, capfdbinary
) -> None:
    """Of several files, in folders with odd names, with and without a newline at the end: as `apply` would write."""
    end = b"\r\n" if has_crlf else b"\n"
    texts = {"train.py": b"workers = 0" + end, "a b/konf ä.yaml": end.join((b"x: 1", b"n: 0"))}
    edits = {"train.py": "workers", "a b/konf ä.yaml": "n"}
    copy = tmp_path / "copy of it"
    for folder in (project, copy):
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
    changes = [
        msgspec.structs.replace(WORKERS, edits=(Edit(name, edits[name], "0", "4", sha256=sha256(text)),))
        for name, text in texts.items()
    ]
    keep(project, *changes)
    assert run(["apply", "--diff"]) == 0
    subprocess.run(["git", "apply"], cwd=copy, input=capfdbinary.readouterr().out, check=True)
    assert run(["apply", "--yes"]) == 0
    for name, text in texts.items():
        assert (copy / name).read_bytes() == (project / name).read_bytes() != text


@pytest.mark.parametrize(
    ("unknown", "why"),
    [((), ""), (("CP001",), ": the gain of CP001 is not estimated"), (("CP001", "SY007"), "CP001, SY007 is not")],
)
def test_what_several_bring_together_is_said_only_where_all_is_known(
    project: Path, capsys: pytest.CaptureFixture[str], unknown: tuple[str, ...], why: str
) -> None:
    rules = {"DL001": "at most 1.5x, bound", "DL004": "1.1x (1.0 to 1.2), modelled", **dict.fromkeys(unknown, "")}
    names = {rule: f"workers_{rule}" for rule in rules}
    text = "".join(f"{name} = 0\n" for name in names.values()).encode()
    (project / "train.py").write_bytes(text)
    edits = {rule: Edit("train.py", name, "0", "4", sha256=sha256(text)) for rule, name in names.items()}
    changes = (
        PatchChange(f"x.{rule}", "run", 0, 4, (rule,), Effect.EXACT, gain, (edits[rule],))
        for rule, gain in rules.items()
    )
    keep(project, *changes)
    assert run(["apply", "--diff"]) == 0
    out = capsys.readouterr().out
    assert "Their combined gain is unknown" in out
    assert why in out


@pytest.mark.parametrize(("no_colour", "is_coloured"), [("", True), ("1", False)])
@pytest.mark.usefixtures("project")
def test_a_diff_has_colours_unless_none_are_wanted(
    monkeypatch: pytest.MonkeyPatch, no_colour: str, is_coloured: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", no_colour)
    assert run(["apply", "--diff"]) == 0
    assert ("\x1b[" in capsys.readouterr().out) is is_coloured


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        ("", 2, "there was no answer on stdin; nothing was written"),
        ("n\n", 0, "Nothing was written.\n"),
        ("y\n", 0, "Wrote 1 file."),
    ],
)
def test_it_asks_before_it_writes(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    says: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert run(["apply"]) == code
    assert says in "".join(capsys.readouterr())
    assert ((project / "train.py").read_bytes() == SCRIPT) is (answer != "y\n")


def test_select_names_rules_or_settings(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--select", "BA005, data.padding", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "DL001 loader.num_workers: 0 -> 4 (equivalent): not written, not selected\n" in out
    assert "There is no file to write." in out
    assert run(["apply", "--select", "XX001"]) == 2


def test_a_stale_file_is_refused(project: Path) -> None:
    (project / "train.py").write_bytes(b"workers = 2\n")
    assert run(["apply", "--yes"]) == 2
    assert (project / "train.py").read_bytes() == b"workers = 2\n"


def test_a_value_that_moved_is_written_and_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_bytes(b"\nworkers = 0 # mine\n")
    assert run(["apply", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "line 2\n" in out
    assert (project / "train.py").read_bytes() == b"\nworkers = 4 # mine\n"
    assert run(["apply", "--yes"]) == 0
    assert "DL001 loader.num_workers: 0 -> 4 (equivalent): not written, " in capsys.readouterr().out


def test_a_typed_value_becomes_a_new_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = Edit(TYPED, "--bs", "8", "16")
    keep(project, PatchChange("loader.batch_size", "loader#train", 8, 16, ("GA004",), Effect.EXACT, edits=(typed,)))
    assert run(["apply", "--yes"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("Your command line is in no file. Start it with:\n  python train.py --bs 16\n")


@pytest.mark.parametrize("hidden", [("--token", "***"), ("--url=https://host/***",), ("...", "--lr", "1")])
def test_a_command_with_hidden_words_is_not_printed(
    project: Path, capsys: pytest.CaptureFixture[str], hidden: tuple[str, ...]
) -> None:
    typed = Edit(TYPED, "--bs", "", "16")
    change = PatchChange("loader.batch_size", "loader#train", 8, 16, ("GA004",), Effect.EXACT, edits=(typed,))
    keep(project, change, WORKERS, command=("train.py", *hidden))
    assert run(["apply", "--yes"]) == 0
    assert capsys.readouterr().out.endswith(
        "Your command line is in no file. It goes with the changes in the files. Add or change on your command line:\n"
        "  --bs 16\n"
    )


def test_the_promised_undo_works_where_apply_was_typed(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (patch,) = project.glob(".autotune/runs/*/patch.yaml")
    away = project.parent / f"{project.name} away"
    away.mkdir()
    monkeypatch.chdir(away)
    assert run(["apply", "--yes", str(patch)]) == 0
    said = capsys.readouterr().out
    assert said.endswith(f"Wrote 1 file. `cd {project} && autotune undo 1` reverts it.\n")
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    assert run(["undo", "1"]) == 0
    assert run(["apply", "--yes", str(patch)]) == 0
    assert "`autotune undo 2` reverts it" in capsys.readouterr().out
    assert run(["undo", "2"]) == 0
    assert (project / "train.py").read_bytes() == SCRIPT


def test_the_last_run_is_said_with_its_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--diff"]) == 0
    name = artefacts.resolve("last", project).name
    said = f"autotune: 1 of 2 changes of run {name}, .* ago: train.py --bs 8\n"
    assert re.fullmatch(said, capsys.readouterr().err)
    assert run(["apply", "--diff", name]) == 0
    assert capsys.readouterr().err == ""


def test_undo_says_what_stays_of_a_persons_own_edits(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--yes"]) == 0
    (project / "train.py").write_bytes(b"import mine\nworkers = 4\n")
    capsys.readouterr()
    assert run(["undo"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[1:] == ["  train.py no longer has the patch, and keeps your later edits"]
    assert (project / "train.py").read_bytes() == b"import mine\nworkers = 0\n"


def test_undo_of_files_that_were_restored_counts_and_apply_writes_again(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["apply", "--yes"]) == 0
    (project / "train.py").write_bytes(SCRIPT)
    capsys.readouterr()
    assert run(["undo"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Undid patch 1 of {project} (1 of 2 changes of run ")
    assert said.splitlines()[1:] == ["  train.py was without the patch already"]
    assert run(["apply", "--yes"]) == 0
    assert (project / "train.py").read_bytes() == b"workers = 4\n"


def test_undo_refuses_lines_of_the_patch_that_were_edited(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--yes"]) == 0
    (project / "train.py").write_bytes(b"workers = 8\n")
    assert run(["undo"]) == 2
    said = capsys.readouterr().err
    assert f"{project / 'train.py'}:1: " in said
    assert (project / "train.py").read_bytes() == b"workers = 8\n"


def test_undo_takes_back_the_patch_of_this_project_and_names_a_newer_one_of_another(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["apply", "--yes"]) == 0
    other = project.parent / "other project"
    (other / ".git").mkdir(parents=True)
    (other / "train.py").write_bytes(SCRIPT)
    keep(other, WORKERS)
    monkeypatch.chdir(other)
    assert run(["apply", "--yes"]) == 0
    monkeypatch.chdir(project)
    capsys.readouterr()
    command = f"cd '{other}' && autotune undo 1"
    newer = f"The last `autotune apply` wrote into {other}. To undo it: `{command}`"
    assert run(["undo"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"Undid patch 1 of {project} (")
    assert said.err == f"autotune: {newer}\n"
    assert (project / "train.py").read_bytes() == SCRIPT
    assert (other / "train.py").read_bytes() != SCRIPT
    assert run(["undo"]) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [newer]
    monkeypatch.chdir(other)
    assert run(["undo"]) == 0
    assert capsys.readouterr().err == ""


HINT = "autotune: an apply or undo was interrupted here: `autotune undo` reverts it\n"


def interrupted(project: Path, before: str = "writing") -> Path:
    assert run(["apply", "--yes"]) == 0
    journal = state.project(project) / "patches" / "1" / "journal.json"
    journal.write_text(journal.read_text().replace('"written"', f'"{before}"'))
    return journal


@pytest.mark.parametrize("found", ["writing", "undoing"])
def test_only_undo_and_apply_take_back_what_a_crash_left(
    project: Path, capsys: pytest.CaptureFixture[str], found: str
) -> None:
    interrupted(project, found)
    capsys.readouterr()
    for words in (["rules"], ["--version"], ["--help"], ["check", "."], ["apply", "--diff"]):
        run(words)
        said = capsys.readouterr().err
        assert (HINT in said) is (words != ["apply", "--diff"]), words
        assert (project / "train.py").read_bytes() == b"workers = 4\n"
    assert run(["undo"]) == 0
    assert capsys.readouterr().out.startswith("Undid patch 1 ")
    assert (project / "train.py").read_bytes() == SCRIPT
    assert run(["rules"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["undo"]) == 2


def test_apply_takes_back_what_a_crash_left_before_it_reads_the_files(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(project)
    capsys.readouterr()
    assert run(["apply", "--yes"]) == 0
    assert "autotune: undid the interrupted patch 1\n" in capsys.readouterr().err
    assert (project / "train.py").read_bytes() == b"workers = 4\n"


@pytest.mark.parametrize("found", ["edited", "deleted"])
def test_what_cannot_be_taken_back_is_named(project: Path, capsys: pytest.CaptureFixture[str], found: str) -> None:
    journal = interrupted(project, "undoing")
    (project / "train.py").unlink() if found == "deleted" else (project / "train.py").write_bytes(b"mine\n")
    capsys.readouterr()
    kept = journal.parent / "before-0"
    assert run(["undo"]) == 0
    left = f"  train.py was changed since and stays as it is; the file before the patch: {kept}\n"
    assert capsys.readouterr().out.endswith(left)
    assert kept.read_bytes() == SCRIPT


def test_a_damaged_journal_is_said_once_and_blocks_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--yes"]) == 0
    patches = state.project(project) / "patches"
    (patches / "1" / "journal.json").write_text("{")
    capsys.readouterr()
    assert run(["rules"]) == 0
    assert capsys.readouterr().err == HINT
    assert run(["apply"]) == 2
    assert capsys.readouterr().err == (
        f"autotune: {patches / '1.damaged'}: a damaged journal (Expecting "
        "property name enclosed in double quotes: line 1 column 2 (char 1)) was set aside: what it wrote stays, and "
        "undo does not know it\nThe files before and after the patch are stored there (before-0, after-0, ...): "
        "compare them.\n"
    )
    assert run(["undo"]) == 2
    assert (patches / "1.damaged" / "before-0").read_bytes() == SCRIPT


SLOW = """\
import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.ones(2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--hub-token")
    args = parser.parse_args()
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(
        Remote(),
        batch_size=4,
        num_workers=args.workers,
    )
    for step, batch in zip(range(args.steps), loader, strict=False):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("steps", step + 1)
"""


@pytest.mark.train
def test_from_a_measurement_to_an_edited_script_and_back(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SLOW)

    def autotune(*words: str) -> str:
        command = [sys.executable, "-m", "autotune", *words]
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        return done.stdout

    secret = "hf_" + "q" * 34
    options = ("--no-lock", "--quiet", "--no-what-ifs", "--steps", "6", "--warmup", "2")
    autotune("diagnose", *options, "--", "train.py", "--hub-token", secret)
    (file,) = tmp_path.glob(".autotune/runs/*/patch.yaml")
    assert secret not in file.read_text()
    assert "default=0)\n" in autotune("apply", "--diff")
    assert (tmp_path / "train.py").read_text() == SLOW
    autotune("apply", "--yes", "--select", "loader.num_workers")
    changed = (tmp_path / "train.py").read_text()
    before, after = SLOW.splitlines(), changed.splitlines()
    assert [old for old, new in zip(before, after, strict=True) if old != new] == [
        '    parser.add_argument("--workers", type=int, default=0)'
    ]
    ran = [sys.executable, "train.py", "--steps", "3"]
    done = subprocess.run(ran, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout == "steps 3\n"
    autotune("undo")
    assert (tmp_path / "train.py").read_text() == SLOW


def test_a_patch_that_lies_in_a_clone_is_not_trusted(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run folder that was not made here: as if it came with the repository."""
    (state.project(project) / "runs").unlink()
    assert run(["apply", "--diff"]) == 0
    said = capsys.readouterr().out
    assert "Not trusted: autotune did not make this patch on this machine for this user" in said
    assert f"It would write below {project}\n" in said
    for words, answer in ((["apply", "--yes"], ""), (["apply"], ""), (["apply"], "y\n"), (["apply"], "yes\n")):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert run(words) == 2
        assert (project / "train.py").read_bytes() == SCRIPT
    monkeypatch.setattr("sys.stdin", io.StringIO("write it\ny\n"))
    assert run(["apply"]) == 0
    assert run(["undo"]) == 0
    assert run(["apply", "--trust", "--yes"]) == 0
    assert (project / "train.py").read_bytes() == b"workers = 4\n"


def test_a_patch_that_was_edited_is_not_trusted(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_dir,) = artefacts.runs(project)
    with (run_dir / "patch.yaml").open("a") as file:
        file.write("# a comment\n")
    assert run(["apply", "--yes"]) == 2
    assert "Not trusted: this patch was edited after autotune made it" in capsys.readouterr().out
    assert (project / "train.py").read_bytes() == SCRIPT
    assert run(["apply", "--trust", "--yes"]) == 0


@pytest.mark.parametrize("how", ["link", "copy"])
def test_a_run_folder_in_the_place_of_another_is_not_trusted(
    project: Path, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory, how: str
) -> None:
    (run_dir,) = artefacts.runs(project)
    other = tmp_path_factory.mktemp("other") / run_dir.name
    run_dir.rename(other)
    run_dir.symlink_to(other) if how == "link" else shutil.copytree(other, run_dir)
    assert run(["apply", "--yes"]) == 2
    assert "--yes does not confirm" in capsys.readouterr().err


def test_a_rule_in_the_place_of_a_run_names_select(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "dl001"]) == 2
    assert "`autotune apply --select DL001`" in capsys.readouterr().err


def test_a_misspelled_verb_names_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnos", "train.py"]) == 2
    assert "No such command 'diagnos'. Did you mean 'diagnose'?" in capsys.readouterr().err
    assert run(["xyzzy"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


def test_undo_of_a_file_that_somebody_else_took_the_patch_out_of_claims_no_edit(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["apply", "--yes"]) == 0
    (project / "train.py").write_bytes(b"# of another commit\n" + SCRIPT)
    capsys.readouterr()
    assert run(["undo"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["  train.py was without the patch already"]
    assert (project / "train.py").read_bytes() == b"# of another commit\n" + SCRIPT
