"""A patch file becomes edited files: what was chosen, all files or none, and the command that stands in no file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune import catalogue
from autotune.apply import apply, undo
from autotune.apply.apply import ApplyOptions
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.applied import ApplyPlan
from autotune.model.finding import Recommendation, SettingChange
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.patch.file import NAME, dumps
from autotune.patch.journal import sha256
from autotune.report.diff import unified
from autotune.tune import confirmation

ARGS = b'\xef\xbb\xbf{"batch": 8, "steps": 4}\r\n'
SCRIPT = b"workers = 0\r\nlast = line_without_an_end"


def edit(file: str, data: bytes, old: str, new: str, key: str = "key") -> Edit:
    return Edit(file, key, old, new, sha256=sha256(data))


def change(setting: str, rule: str, *edits: Edit, effect: Effect = Effect.EXACT, **more: object) -> PatchChange:
    return PatchChange(setting, "run", 1, 2, (rule,), effect, edits=edits, **more)  # type: ignore[arg-type]


BATCH = change(
    "loader.batch_size", "GA004", edit("args.json", ARGS, "8", "16", "batch"), needs=("train.accumulation_steps",)
)
STEPS = change(
    "train.accumulation_steps", "GA004", edit("args.json", ARGS, "4", "2", "steps"), needs=("loader.batch_size",)
)
WORKERS = change("loader.num_workers", "DL001", edit("train.py", SCRIPT, "0", "4", "workers"), effect=Effect.EQUIVALENT)
PRECISION = change(
    "train.precision", "PR002", edit("train.py", SCRIPT, "line_without_an_end", "best", "last"), effect=Effect.ALTERING
)
SAVES = change("checkpoint.interval_steps", "CK001", edit("args.json", ARGS, "4", "40", "steps"))
PADDING = change("data.padding", "BA005", by_hand="padding = longest: the reason")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "args.json").write_bytes(ARGS)
    (tmp_path / "train.py").write_bytes(SCRIPT)
    return tmp_path


def keep(project: Path, *changes: PatchChange, command: tuple[str, ...] = ("train.py",)) -> Path:
    """A run of `project` with this patch, which is its last one."""
    run = artefacts.new_run(project)
    (run / "recording-1.json").write_text("{}")  # a run has one
    artefacts.write_patch(run / NAME, dumps(Patch(str(project), run.name, command, changes)))
    artefacts.mark_last(run)
    return run


def plan(project: Path, *select: str, allow: Effect | None = None, name: str = "last") -> ApplyPlan:
    return apply.plan(ApplyOptions(name, select, frozenset([allow] if allow else [])), cwd=project)


def names(planned: ApplyPlan) -> list[str]:
    return [each.setting for each in planned.chosen]


def reasons(planned: ApplyPlan) -> dict[str, str]:
    return {each.setting: reason for each, reason in planned.left}


def test_only_what_leaves_training_the_same_is_written_without_a_word(project: Path) -> None:
    keep(project, BATCH, STEPS, WORKERS, PRECISION, PADDING)
    planned = plan(project)
    assert names(planned) == ["loader.batch_size", "train.accumulation_steps", "loader.num_workers"]
    assert reasons(planned) == {
        "train.precision": "it is altering: --allow altering writes it too",
        "data.padding": PADDING.by_hand,
    }
    apply.write(planned)
    assert (project / "args.json").read_bytes() == ARGS.replace(b"8", b"16").replace(b"4", b"2")
    assert (project / "train.py").read_bytes() == SCRIPT.replace(b"0", b"4")


@pytest.mark.parametrize("effect", Effect)
def test_what_is_written_unasked_is_what_the_report_has_under_apply_now(project: Path, effect: Effect) -> None:
    """Of all settings, each proposed by itself."""
    settings = sorted(catalogue.settings())
    keep(
        project, *(replace(WORKERS, setting=name, effect=effect, rules=(f"X{at}",)) for at, name in enumerate(settings))
    )
    proposed = [Recommendation(1, (), (SettingChange(name, 0, 4, effect),), effect) for name in settings]
    assert names(plan(project)) == [one.changes[0].setting for one in proposed if one.is_free]


def test_what_costs_something_else_is_written_when_it_is_named(project: Path) -> None:
    keep(project, WORKERS, SAVES)
    assert names(plan(project)) == ["loader.num_workers"]
    why = {"checkpoint.interval_steps": "it has another cost: --select checkpoint.interval_steps writes it"}
    assert reasons(plan(project)) == reasons(plan(project, allow=Effect.ALTERING)) == why
    assert names(plan(project, "CK001")) == ["checkpoint.interval_steps"]


def test_what_is_proposed_together_is_decided_on_as_a_whole(project: Path) -> None:
    """The report has one recommendation, which alters training."""
    keep(project, WORKERS, replace(PRECISION, rules=WORKERS.rules))
    assert not plan(project).chosen
    assert reasons(plan(project))["loader.num_workers"] == ("it depends on train.precision, which is not written")
    assert len(plan(project, allow=Effect.ALTERING).chosen) == 2
    assert names(plan(project, "loader.num_workers")) == ["loader.num_workers"]


@pytest.mark.parametrize("select", [("PR002",), ("train.precision",)])
def test_what_alters_training_is_written_when_it_is_named(project: Path, select: tuple[str, ...]) -> None:
    keep(project, WORKERS, PRECISION)
    planned = plan(project, *select)
    assert names(planned) == ["train.precision"]
    assert reasons(planned) == {"loader.num_workers": "not selected"}
    assert names(plan(project, allow=Effect.ALTERING)) == ["loader.num_workers", "train.precision"]


def test_of_two_that_need_each_other_none_is_written_alone(project: Path) -> None:
    keep(project, BATCH, STEPS)
    planned = plan(project, "loader.batch_size")
    assert not planned.chosen
    assert reasons(planned)["loader.batch_size"] == ("it depends on train.accumulation_steps, which is not written")
    assert names(plan(project, "GA004")) == ["loader.batch_size", "train.accumulation_steps"]


def test_one_that_alters_training_keeps_its_partner_back(project: Path) -> None:
    keep(project, replace(BATCH, effect=Effect.ALTERING), STEPS)
    assert not plan(project).chosen
    assert len(plan(project, allow=Effect.ALTERING).chosen) == 2


def test_what_was_proven_together_with_what_alters_training_is_not_written_without_it(project: Path) -> None:
    keep(project, *confirmation.written_together(replace(one, rules=("tune",)) for one in (BATCH, STEPS, PRECISION)))
    for planned in (plan(project), plan(project, "loader.batch_size", "train.accumulation_steps")):
        assert not planned.chosen
        assert not planned.files
        assert "depends on train.precision, which is not written" in reasons(planned)["loader.batch_size"]
    assert reasons(plan(project))["train.precision"] == "it is altering: --allow altering writes it too"
    whole = ["loader.batch_size", "train.accumulation_steps", "train.precision"]
    assert names(plan(project, allow=Effect.ALTERING)) == names(plan(project, *whole)) == whole


def test_one_whose_partner_somebody_made_is_refused(project: Path) -> None:
    keep(project, BATCH, STEPS, WORKERS)
    (project / "args.json").write_bytes(ARGS.replace(b"8", b"16"))
    with pytest.raises(UsageError, match=r"someone wrote loader\.batch_size = 2"):
        plan(project)
    assert names(plan(project, "loader.num_workers")) == ["loader.num_workers"]
    (project / "args.json").write_bytes(ARGS.replace(b"8", b"16").replace(b"4", b"2"))
    assert names(plan(project)) == ["loader.num_workers"]


def test_one_whose_partner_was_deleted_from_the_file_is_left(project: Path) -> None:
    keep(project, STEPS)
    assert not plan(project).chosen


def test_a_name_that_the_patch_does_not_have_is_refused(project: Path) -> None:
    keep(project, WORKERS)
    with pytest.raises(UsageError, match="no change of this patch matches DL002") as error:
        plan(project, "DL002")
    assert "DL001, loader.num_workers" in error.value.to_do


def test_a_value_is_found_in_a_file_that_changed_since(project: Path) -> None:
    keep(project, BATCH, STEPS, WORKERS)
    (project / "args.json").write_bytes(b'{\n "name": "8", "steps": 4,\n "batch": 8}\n')
    (project / "train.py").write_bytes(b"# new\n" + SCRIPT)
    planned = plan(project)
    assert [(line.split()[0], line.split()[-1]) for line in planned.moved] == [
        ("args.json", "3"),
        ("args.json", "2"),
        ("train.py", "2"),
    ]
    apply.write(planned)
    assert (project / "args.json").read_bytes() == b'{\n "name": "8", "steps": 2,\n "batch": 16}\n'
    assert (project / "train.py").read_bytes() == b"# new\n" + SCRIPT.replace(b"0", b"4")
    undo.undo(None, cwd=project)
    assert (project / "train.py").read_bytes() == b"# new\n" + SCRIPT


def test_a_value_that_changed_since_is_refused_and_nothing_is_written(project: Path) -> None:
    keep(project, BATCH, STEPS, WORKERS)
    (project / "args.json").write_bytes(ARGS.replace(b"8", b"9"))
    with pytest.raises(UsageError, match=r"batch: .* 9 ") as error:
        plan(project)
    assert error.value.where == "args.json"
    assert (project / "train.py").read_bytes() == SCRIPT
    assert names(plan(project, "DL001")) == ["loader.num_workers"]


def test_what_was_written_before_is_left_out_and_its_partner_is_not(project: Path) -> None:
    evaluations = replace(BATCH, setting="evaluation.interval_steps", needs=("checkpoint.interval_steps",))
    saves = replace(STEPS, setting="checkpoint.interval_steps", needs=("evaluation.interval_steps",))
    keep(project, evaluations, saves, WORKERS)
    (project / "args.json").write_bytes(ARGS.replace(b"8", b"16"))
    planned = plan(project, "GA004", "DL001")
    assert reasons(planned) == {"evaluation.interval_steps": "it has this value already"}
    apply.write(planned)
    assert (project / "args.json").read_bytes() == ARGS.replace(b"8", b"16").replace(b"4", b"2")
    assert not plan(project).chosen


def test_what_a_patch_wrote_is_so_wherever_its_lines_are_now(project: Path) -> None:
    """A file that was edited since has two values of that name: the patch's own lines say which one it wrote."""
    keep(project, WORKERS, PRECISION)
    apply.write(plan(project))
    (project / "train.py").write_bytes(b"workers = 2\n" + SCRIPT.replace(b"workers = 0", b"workers = 4"))
    planned = plan(project)
    assert reasons(planned)["loader.num_workers"] == "it has this value already: patch 1 wrote it"
    assert not planned.files
    assert names(plan(project, "PR002")) == ["train.precision"]


def test_a_file_that_is_gone_is_refused(project: Path) -> None:
    keep(project, WORKERS)
    (project / "train.py").unlink()
    with pytest.raises(UsageError, match=r"cannot be edited: No such file .*; nothing was changed"):
        plan(project)


def test_what_is_kept_for_undo_lies_outside_the_project(project: Path) -> None:
    run = keep(project, WORKERS)
    (project / "p.yaml").write_bytes((run / NAME).read_bytes())
    shutil.rmtree(project / ".autotune")
    apply.write(plan(project, name=str(project / "p.yaml")))
    assert not (project / ".autotune").exists()


def test_undo_gives_every_byte_back(project: Path) -> None:
    keep(project, BATCH, STEPS, WORKERS)
    first = apply.write(plan(project, "GA004"))
    keep(project, WORKERS)
    second = apply.write(plan(project))
    assert first is not None
    assert second is not None
    assert undo.undo(first.number, cwd=project).number == first.number
    assert (project / "args.json").read_bytes() == ARGS
    assert (project / "train.py").read_bytes() == SCRIPT.replace(b"0", b"4")
    assert undo.undo(None, cwd=project).number == second.number
    assert (project / "train.py").read_bytes() == SCRIPT
    with pytest.raises(UsageError, match="there is no applied patch"):
        undo.undo(None, cwd=project)


def test_the_diff_shows_the_changed_lines_only(project: Path) -> None:
    keep(project, WORKERS)
    planned = plan(project)
    lines = list(unified(planned.files, planned.root))
    assert [line for line in lines if line[0] in "+-" and not line.startswith(("---", "+++"))] == [
        "-workers = 0\r\n",
        "+workers = 4\r\n",
    ]


def test_a_run_without_a_patch_and_a_patch_file_by_its_path(project: Path) -> None:
    run = keep(project, WORKERS)
    assert names(plan(project, name=str(run / NAME))) == names(plan(project, name=run.name)) == ["loader.num_workers"]
    (run / NAME).unlink()
    with pytest.raises(UsageError, match="this run has no patch"):
        plan(project)


def typed(key: str, old: str, new: str) -> PatchChange:
    return change("train.max_steps", "XX001", Edit(TYPED, key, old, new))


@pytest.mark.parametrize(
    ("command", "edits", "expected"),
    [
        ("train.py --bs 8", [("--bs", "8", "16")], "python train.py --bs 16"),
        ("train.py --bs=8 --x", [("--bs", "8", "16")], "python train.py --bs=16 --x"),
        ("train.py --bs 4 --bs 8", [("--bs", "8", "16")], "python train.py --bs 4 --bs 16"),
        ("torchrun train.py --bs 8", [("--workers", "", "2")], "torchrun train.py --bs 8 --workers 2"),
        ("train.py --bf16 --bs 8", [("--bf16", "True", "False")], "python train.py --bf16 False --bs 8"),
        ("train.py --bf16", [("--bf16", "True", "False")], "python train.py --bf16 False"),
        ("train.py --bf16 True --x", [("--bf16", "True", "False")], "python train.py --bf16 False --x"),
        ("train.py data.bs=8 +x.y=1", [("data.bs", "8", "16"), ("x.y", "1", "2")], "python train.py data.bs=16 +x.y=2"),
        ("litgpt finetune a", [("train.bs", "", "2")], "litgpt finetune a train.bs=2"),
        ("train.py --bs-max 1 --name 'a b'", [("--bs", "", "2")], "python train.py --bs-max 1 --name 'a b' --bs 2"),
    ],
)
def test_the_new_command(project: Path, command: str, edits: list[tuple[str, str, str]], expected: str) -> None:
    words = ("train.py", "--bs-max", "1", "--name", "a b") if "'" in command else tuple(command.split())
    keep(project, *(typed(*one) for one in edits), command=words)
    planned = plan(project)
    assert not planned.files
    assert planned.command == expected


@pytest.mark.parametrize(
    ("command", "edit_of", "expected"),
    [
        (("train.py", "--token", "***", "--bs", "8"), ("--bs", "8", "16"), "--bs 16"),
        (("train.py", "--token=***", "--bs=8"), ("--bs", "8", "16"), "--bs=16"),
        (("train.py", "--url", "https://host/***"), ("--bs", "", "16"), "--bs 16"),
        (("train.py", "key=***", "+x.y=1"), ("x.y", "1", "2"), "+x.y=2"),
        (("run.sh", "...", "--x"), ("data.bs", "8", "a b"), "'data.bs=a b'"),
    ],
)
def test_a_command_that_was_not_kept_whole_is_never_printed(
    project: Path, command: tuple[str, ...], edit_of: tuple[str, str, str], expected: str
) -> None:
    keep(project, typed(*edit_of), command=command)
    planned = plan(project)
    assert (planned.command, planned.typed) == ("", expected)


def elsewhere(project: Path, root: str, *changes: PatchChange) -> str:
    """A patch file that lies in no run folder."""
    path = project.parent / "sent.yaml"
    path.write_text(dumps(Patch(root, "r", ("train.py",), changes)))
    return str(path)


@pytest.mark.parametrize("name", ["./train.py", "link.py"])
def test_one_file_under_two_names_is_written_once(project: Path, name: str) -> None:
    (project / "link.py").symlink_to("train.py")
    other = change("train.precision", "PR002", edit(name, SCRIPT, "line_without_an_end", "best", "last"))
    same = change("loader.x", "DL002", edit(name, SCRIPT, "0", "4", "workers"))
    keep(project, WORKERS, other, same)
    planned = plan(project)
    assert [path for path, _, _ in planned.files] == [project.resolve() / "train.py"]
    apply.write(planned)
    assert (project / "train.py").read_bytes() == SCRIPT.replace(b"0", b"4").replace(b"line_without_an_end", b"best")
    undo.undo(None, cwd=project)
    assert (project / "train.py").read_bytes() == SCRIPT


@pytest.mark.parametrize("kind", ["upwards", "absolute", "link"])
def test_a_file_outside_the_project_is_refused(project: Path, kind: str) -> None:
    other = project.parent / f"{project.name}-other"
    other.mkdir()
    (other / "train.py").write_bytes(SCRIPT)
    (project / "away.py").symlink_to(other / "train.py")
    names = {"upwards": f"../{other.name}/train.py", "absolute": str(other / "train.py"), "link": "away.py"}
    keep(project, change("loader.num_workers", "DL001", edit(names[kind], SCRIPT, "0", "4")))
    with pytest.raises(UsageError, match="lies outside the project"):
        plan(project)
    assert (other / "train.py").read_bytes() == SCRIPT


def test_the_patch_of_a_copied_project_does_not_write_the_first_one(project: Path) -> None:
    keep(project, WORKERS)
    copy = shutil.copytree(project, project.parent / f"{project.name}-copy")
    with pytest.raises(UsageError, match="the project was copied or moved") as error:
        plan(copy)
    assert error.value.to_do == "Diagnose again."
    assert (project / "train.py").read_bytes() == SCRIPT


def test_a_project_that_is_reached_by_a_link_is_the_same(project: Path) -> None:
    keep(project, WORKERS)
    link = project.parent / f"{project.name}-link"
    link.symlink_to(project)
    apply.write(plan(link))
    assert (project / "train.py").read_bytes() == SCRIPT.replace(b"0", b"4")
    undo.undo(None, cwd=link)
    assert (project / "train.py").read_bytes() == SCRIPT


@pytest.mark.parametrize("root", [".", "", "/no such folder"])
def test_a_patch_file_elsewhere_names_its_root_in_full(
    project: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    monkeypatch.chdir(project)
    with pytest.raises(UsageError, match="not the absolute path of a folder"):
        plan(project, name=elsewhere(project, root, WORKERS))
    assert names(plan(project, name=elsewhere(project, str(project), WORKERS))) == ["loader.num_workers"]


def test_undo_and_recover_find_the_patches_from_a_subfolder(project: Path) -> None:
    below = project / "sub" / "package"
    below.mkdir(parents=True)
    (below / "pyproject.toml").touch()  # a project of its own for a diagnosis
    with pytest.raises(UsageError, match="no applied patch to undo"):
        undo.undo(None, cwd=below)
    journal = apply.write(plan(project, name=elsewhere(project, str(project), WORKERS)))
    assert journal is not None
    assert undo.undo(journal.number, cwd=below).number == journal.number
    assert (project / "train.py").read_bytes() == SCRIPT


def test_what_a_crash_left_is_taken_back(project: Path) -> None:
    keep(project, WORKERS)
    journal = apply.write(plan(project))
    assert journal is not None
    state = journal.folder / "journal.json"
    state.write_text(state.read_text().replace('"written"', '"writing"'))
    assert [one.number for one in apply.recover(project)] == [journal.number]
    assert (project / "train.py").read_bytes() == SCRIPT
    assert apply.recover(project) == ()


def test_edits_that_break_each_other_are_refused_and_nothing_is_written(project: Path) -> None:
    data = b'{"z": 1}'
    (project / "args.json").write_bytes(data)
    first, second = (
        change(f"s.{key}", f"XX00{at}", Edit("args.json", "o.a", "", str(at), sha256=sha256(data)))
        for at, key in enumerate(("a", "b"), 1)
    )
    keep(project, first, second)
    with pytest.raises(UsageError, match=r"o\.a "):
        plan(project)
    assert [after for _, _, after in plan(project, "s.a").files] == [b'{"z": 1, "o": {"a": 1}}']


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(project: Path, make: Callable[[Path], None]) -> None:
    keep(project, WORKERS)
    (project / "train.py").unlink()
    make(project / "train.py")
    with pytest.raises(UsageError, match="cannot be edited: it is not a regular file; nothing was changed"):
        plan(project)


def test_the_workers_of_another_loader_are_not_what_a_change_needs(project: Path) -> None:
    prefetch = replace(WORKERS, setting="loader.prefetch_factor", subject="loader#train", needs=("loader.num_workers",))
    other = replace(WORKERS, subject="loader#eval")
    keep(project, other, prefetch)
    planned = plan(project)
    assert names(planned) == ["loader.num_workers"]
    assert "depends on loader.num_workers" in reasons(planned)["loader.prefetch_factor"]
