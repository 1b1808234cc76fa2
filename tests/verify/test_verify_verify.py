"""From a command and a change to a verdict: with starts that are made up, and with real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from autotune import collect, patch, state
from autotune.apply import apply
from autotune.apply.applied_patches import PATCHES
from autotune.collect import artefacts
from autotune.errors import ScriptError, UsageError
from autotune.history import commands, results
from autotune.machine import num_cpus
from autotune.model.derived import Derived
from autotune.model.evidence import Setting
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.recording import RecordedWindow, Recording
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.model.verified import (
    AFTER,
    BEFORE,
    SIDES,
    Clock,
    LossVerdict,
    Resume,
    Resumed,
    RunResult,
    TimeSlicing,
    Verdict,
)
from autotune.patch.file import NAME, dumps
from autotune.patch.journal import PatchStore
from autotune.patch.journal import sha256 as digest
from autotune.probe import clock
from autotune.verify import clocks, pairs, resume, schedule, sides
from autotune.verify import verify as api
from autotune.verify.runs import SideRunner as RealRunner
from autotune.verify.scratch import Mirror
from autotune.verify.thresholds import TURN_S

pytestmark = pytest.mark.usefixtures("few_beside")

OLD, NEW = "lr = 0.1\n", "lr = 0.9\n"


def change(root: Path, *, effect: Effect = Effect.EQUIVALENT, file: str = "settings.py") -> PatchChange:
    data = (root / file).read_bytes()
    edit = Edit(file, "lr", "0.1", "0.9", sha256=digest(data))
    return PatchChange("loader.num_workers", "loader#train", 0, 4, ("DL001",), effect, edits=(edit,))


def patched(root: Path, **fields) -> str:
    """Write the patch of a run that changes lr, as "last"."""
    run = artefacts.new_run(root)
    artefacts.write_patch(run / NAME, dumps(Patch(str(root), run.name, ("train.py",), (change(root, **fields),))))
    (run / "run.json").write_text("{}")
    artefacts.mark_last(run)
    return run.name


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "settings.py").write_text(OLD)
    (tmp_path / "train.py").write_text("")
    return tmp_path


EMPTY = dict.fromkeys(("events", "fetches", "batches", "samples", "loaders", "optimizers", "models", "calls"), ())
UNKNOWN = dict.fromkeys(("error", "device", "io", "compile", "kernels"))
RECORDING = Recording(
    outcome="completed", origin_ns=0, process={"argv": ["train.py"]}, software={}, frameworks={}, torch_state={},
    environment={}, memory={}, what_ifs=(), side_effects={"blocked": [], "not_isolated": []},
    overhead={"event_ns": 0, "sampler_ns": 0}, sampler_interval_ns=1,
    window=RecordedWindow(3, 20, 0, 10, (1,) * 23, "optimizer", "steps"), **UNKNOWN, **EMPTY,
)  # fmt: skip


@dataclass
class Script:
    """What the starts of each side bring; `requests` and `shown` are what they were asked and what they saw."""

    step_ms: dict = field(default_factory=lambda: {BEFORE: 100.0, AFTER: 80.0})
    losses: dict = field(default_factory=lambda: dict.fromkeys(SIDES, (1.0, 0.5)))
    settings: dict = field(default_factory=lambda: {BEFORE: 0, AFTER: 4})
    fields: dict = field(default_factory=lambda: {BEFORE: {}, AFTER: {}})
    collected: dict = field(default_factory=lambda: {BEFORE: {}, AFTER: {}})
    recorded: dict = field(default_factory=lambda: {BEFORE: {}, AFTER: {}})
    requests: list = field(default_factory=list)
    shown: list = field(default_factory=list)
    together: list = field(default_factory=list)
    words: list = field(default_factory=list)
    fails_together: bool = False


@dataclass
class Runner:
    """Starts that take no time."""

    script: Script
    root: Path
    cwd: Path
    sides: sides.Sides
    mirrors: dict[str, Mirror]
    python: str = "python"

    def run(self, side, request):
        script = self.script
        script.requests.append((side, request))
        if self.mirrors:
            self.mirrors[side].show(self.sides.files[side])
            script.shown.append((side, (self.mirrors[side].place / "settings.py").read_text()))
        recordings = (replace(RECORDING, **script.recorded[side]),)
        given = {"recordings": recordings, "ended_by": "probe", "exit_code": 0, "wall_s": 1.0, "startup_s": 0.5}
        collected = collect.Collected(folder=Path(), sampled=None, **{**given, **script.collected[side]})
        start = RunResult(side, script.step_ms[side], 20, 3, 3.0, losses=script.losses[side], **script.fields[side])
        setting = Setting("loader.num_workers", "loader#train", script.settings[side], "observed")
        if script.recorded[side].get("window", RECORDING.window) is None:
            return collected, None, None
        return collected, start, Derived((), (setting,), None)

    def in_turns(self, requests, turns):
        self.script.together.append(tuple(requests))
        if self.script.fails_together:
            return None
        return {side: self.run(side, request) for side, request in requests.items()}

    def with_real_paths(self, text):
        return text


@pytest.fixture
def runner(monkeypatch):
    """The starts that are made up; tests change what they bring."""
    script = Script()

    def made(root, cwd, environ, python, sides, mirrors, show):
        script.requests.clear()
        script.shown.clear()
        script.words.append(sides.words)
        return Runner(script, root, cwd, sides, mirrors)

    monkeypatch.setattr(api, "SideRunner", made)
    monkeypatch.setattr(api.pair_store, "conditions", lambda *given: {"the machine": "this one"})
    return script


def verified(root: Path, announced=None, **fields):
    options = api.VerifyOptions(**{"words": ("train.py",), "lock": False, **fields})
    seen = announced if announced is not None else []
    return api.verify(options, lambda *told: seen.append(told), lambda status: None, cwd=root, environ=os.environ)


def test_the_last_patch_is_measured_on_a_copy_in_turns(root, runner) -> None:
    run = patched(root)
    announced = []
    found = verified(root, announced)
    assert found.verdict is Verdict.FASTER
    assert found.estimate.speedup == pytest.approx(1.25)
    assert found.against == f"1 of 1 changes of run {run}, not applied yet"
    assert (found.beside, found.apply_command, found.undo_command) == ("", "autotune apply --diff", "")
    assert [side for side, _ in runner.requests] == [BEFORE, AFTER, *found.schedule.order]
    assert runner.shown == [(side, {BEFORE: OLD, AFTER: NEW}[side]) for side, _ in runner.requests]
    assert (announced[0][0], announced[0][2]) == (found.schedule, found.against)
    assert {(one.steps, one.warmup, one.what_ifs) for _, one in runner.requests[2:]} == {(17, 3, False)}
    assert (root / "settings.py").read_text() == OLD
    assert [path.name for path in (root / ".autotune" / "runs").iterdir()] == [run]


def test_it_is_kept_in_the_run_folder_of_its_patch(root, runner) -> None:
    folder = root / ".autotune" / "runs" / patched(root)
    found = verified(root)
    assert found.day
    assert results.verification(folder) == replace(found, resume_command="")


def test_what_was_measured_and_where_is_part_of_it_and_no_secret_is(root, runner, monkeypatch) -> None:
    run = root / ".autotune" / "runs" / patched(root)
    words = ("train.py", "--key", "hunter2")
    found = verified(root, words=words)
    assert found.command == ("train.py",)
    assert "core" in found.environment and f"torch {version('torch')}" in found.environment
    commands.store(run, commands.StoredCommand(run.name, words, root), words)  # its diagnosis hid nothing
    assert verified(root, words=words).command == words


def test_nothing_is_kept_in_a_folder_that_was_not_made_here(root, runner, monkeypatch) -> None:
    folder = root / ".autotune" / "runs" / patched(root)
    monkeypatch.setattr(artefacts, "runs", lambda root: ())
    verified(root)
    assert results.verification(folder) is None


def test_what_is_applied_already_is_compared_with_what_was_before(root, runner) -> None:
    patched(root)
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    found = verified(root)
    assert found.against == "patch 1 (applied)"
    assert [one.setting for one in found.changes] == ["loader.num_workers"]
    assert runner.shown == [(side, {BEFORE: OLD, AFTER: NEW}[side]) for side, _ in runner.requests]
    assert (root / "settings.py").read_text() == NEW


def test_only_what_was_written_counts_when_another_change_was_so_already(root, runner) -> None:
    """The one that was so already leaves as many safe changes as there are, and one of them was not written."""
    (root / "other.py").write_text(OLD)
    made = change(root)
    so = replace(change(root, file="other.py"), setting="loader.pin_memory")
    risky = replace(change(root, file="train.py"), setting="train.precision", effect=Effect.ALTERING, rules=("PR002",))
    run = artefacts.new_run(root)
    artefacts.write_patch(run / NAME, dumps(Patch(str(root), run.name, ("train.py",), (made, so, risky))))
    (run / "run.json").write_text("{}")
    artefacts.mark_last(run)
    (root / "other.py").write_text(NEW)
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    assert verified(root).changes == (made,)


def test_of_a_patch_that_was_written_in_part_it_is_that_part(root, runner) -> None:
    (root / "other.py").write_text(OLD)
    made, rest = change(root), replace(change(root, file="other.py"), setting="loader.pin_memory", rules=("DL002",))
    run = artefacts.new_run(root)
    artefacts.write_patch(run / NAME, dumps(Patch(str(root), run.name, ("train.py",), (made, rest))))
    (run / "run.json").write_text("{}")
    artefacts.mark_last(run)
    apply.write(apply.plan(apply.ApplyOptions(select=("DL001",)), cwd=root))
    found = verified(root)
    assert found.against == "patch 1 (applied)"
    assert found.changes == (made,)
    assert verified(root, select=("DL002",)).changes == (rest,)
    assert verified(root, select=("DL001",)).against == "patch 1 (applied)"
    assert (found.apply_command, found.undo_command) == ("", "autotune undo 1")


def test_a_newer_run_is_compared_before_what_was_written_of_another(root, runner) -> None:
    patched(root)
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    (root / "other.py").write_text(OLD)
    run = patched(root, file="other.py")
    found = verified(root)
    assert found.against == f"1 of 1 changes of run {run}, not applied yet"
    assert found.beside == "patch 1 is applied: --patch 1 measures that one"


def test_a_written_patch_has_a_number(root, runner) -> None:
    patched(root)
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    (root / "other.py").write_text(OLD)
    patched(root, file="other.py")
    found = verified(root, patch="1")
    assert (found.against, found.beside) == ("patch 1 (applied)", "")
    assert [edit.file for one in found.changes for edit in one.edits] == ["settings.py"]
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    assert verified(root, patch="1").against == "patch 1 (applied)"
    assert verified(root).against == verified(root, patch="2").against == "patch 2 (applied)"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"patch": "7"}, "no applied patch has this number.*There is: 1"),
        ({"patch": "1", "select": ("DL001",)}, "measured as a whole"),
        ({"patch": "1", "allow": frozenset([Effect.ALTERING])}, "measured as a whole"),
    ],
)
def test_a_number_names_one_whole_patch_that_is_written(root, runner, fields, said: str) -> None:
    patched(root)
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    with pytest.raises(UsageError, match=f"(?s){said}"):
        verified(root, **fields)


def test_a_number_of_what_changed_since_or_was_never_written_is_refused(root, runner) -> None:
    patched(root)
    with pytest.raises(UsageError, match=r"(?s)no applied patch has this number.*apply` writes one"):
        verified(root, patch="1")
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    (root / "settings.py").write_text("lr = 0.5\n")
    with pytest.raises(UsageError, match=r"the patch wrote 'lr = 0\.9' here, but it was edited since") as error:
        verified(root, patch="1")
    assert error.value.where == f"{root / 'settings.py'}:1"
    (root / "settings.py").write_text(OLD)
    with pytest.raises(UsageError, match="no applied patch has this number"):
        verified(root, patch="1")


def test_a_file_whose_name_is_a_number_is_that_file(root, runner) -> None:
    run = patched(root)
    (root / "1").write_bytes((root / ".autotune" / "runs" / run / NAME).read_bytes())
    with pytest.raises(UsageError, match=rf"autotune did not make this patch .*{root}/1"):  # somebody else's is not run
        verified(root, patch="1")


def test_a_line_of_the_written_patch_that_was_edited_since_is_named(root, runner) -> None:
    patched(root)
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    (root / "settings.py").write_text("lr = 0.5\n")
    with pytest.raises(UsageError, match=r"the patch wrote 'lr = 0\.9' here, but it was edited since and is") as error:
        verified(root)
    assert error.value.where == f"{root / 'settings.py'}:1"
    assert "Before the patch it was 'lr = 0.1'" in error.value.to_do


@pytest.mark.parametrize("fields", [{}, {"patch": "1"}, {"select": ("DL001",)}])
def test_a_written_patch_is_measured_beside_what_was_edited_since(root, runner, fields) -> None:
    """It is in the file as long as its own lines are: that others were edited takes nothing away."""
    patched(root)
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    (root / "settings.py").write_text(f"seed = 1\n{NEW}")
    found = verified(root, **fields)
    assert found.against == (
        "patch 1 (applied); settings.py was edited since: as it is now, against the same without the patch's lines"
    )
    assert [one.setting for one in found.changes] == ["loader.num_workers"]
    both = {BEFORE: f"seed = 1\n{OLD}", AFTER: f"seed = 1\n{NEW}"}
    assert runner.shown == [(side, both[side]) for side, _ in runner.requests]


def test_what_was_restored_since_is_not_written(root, runner) -> None:
    run = patched(root)
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    (root / "settings.py").write_text(f"seed = 1\n{OLD}")
    assert verified(root).against == f"1 of 1 changes of run {run}, not applied yet"


def project_with_a_written_patch(root: Path) -> None:
    """Patch 1 is written, and a newer run proposes another file's."""
    patched(root)
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    (root / "other.py").write_text(OLD)
    patched(root, file="other.py")


def test_a_name_that_the_patch_does_not_have_is_no_written_patch(root, runner) -> None:
    project_with_a_written_patch(root)
    with pytest.raises(UsageError, match="no change of this patch matches DL999"):
        verified(root, select=("DL999",))


def test_a_stale_patch_is_no_older_one_that_was_written(root, runner) -> None:
    project_with_a_written_patch(root)
    (root / "other.py").write_text("lr = 0.5\n")
    with pytest.raises(UsageError, match="changed since"):
        verified(root)


def test_where_the_last_run_has_nothing_to_write_it_is_the_written_patch(root, runner) -> None:
    project_with_a_written_patch(root)
    last = artefacts.resolve("last", root)
    by_hand = replace(change(root, file="other.py"), setting="train.precision", rules=("PR001",), edits=(), by_hand="x")
    artefacts.write_patch(last / NAME, dumps(Patch(str(root), last.name, ("train.py",), (by_hand,))))
    assert verified(root).against == "patch 1 (applied)"
    with pytest.raises(UsageError, match="writes nothing"):
        verified(root, select=("PR001",))
    (last / NAME).unlink()
    assert verified(root).against == "patch 1 (applied)"


def test_what_the_user_types_since_is_part_of_a_written_patch(root, runner) -> None:
    run = artefacts.new_run(root)
    typed = Edit(TYPED, "--batch", "8", "32")
    larger = PatchChange("loader.batch_size", "loader#train", 8, 32, ("tune",), Effect.EQUIVALENT, edits=(typed,))
    command = ("train.py", "--batch", "8")
    artefacts.write_patch(run / NAME, dumps(Patch(str(root), run.name, command, (change(root), larger))))
    (run / "run.json").write_text("{}")
    artefacts.mark_last(run)
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    found = verified(root, words=("train.py", "--batch", "32"))
    assert [one.setting for one in found.changes] == ["loader.num_workers", "loader.batch_size"]
    assert runner.words[-1] == {BEFORE: command, AFTER: ("train.py", "--batch", "32")}
    found = verified(root, words=command)
    assert [one.setting for one in found.changes] == ["loader.num_workers"]
    assert runner.words[-1] == {BEFORE: command, AFTER: command}


def test_another_script_needs_no_copy(root, runner) -> None:
    found = verified(root, against="other.py")
    assert found.against == "train.py against other.py"
    assert runner.shown == []
    assert found.changes == ()


def test_an_altering_change_is_verified_when_it_is_allowed(root, runner) -> None:
    patched(root, effect=Effect.ALTERING)
    with pytest.raises(UsageError, match="nothing to verify"):
        verified(root)
    assert verified(root, allow=frozenset([Effect.ALTERING])).changes[0].effect is Effect.ALTERING


def test_a_loss_that_changes_is_caught_whatever_the_speed(root, runner) -> None:
    patched(root, effect=Effect.EXACT)
    runner.losses = {BEFORE: (1.0, 0.5), AFTER: (1.0, 0.5000001)}
    found = verified(root)
    assert found.verdict is Verdict.FASTER
    assert found.losses.sameness is LossVerdict.DIFFERENT


def test_an_edit_that_does_not_reach_the_run_is_said(root, runner) -> None:
    patched(root)
    runner.settings = {BEFORE: 0, AFTER: 0}
    missed = "loader.num_workers was 0 on both sides: the edit did not reach the run"
    assert verified(root).notes[0] == missed
    runner.settings = {BEFORE: 4, AFTER: 4}
    assert verified(root).notes[0] == missed.replace("0", "4")
    runner.settings = {BEFORE: 0, AFTER: 4}
    assert not [note for note in verified(root).notes if "on both sides" in note]


def test_steps_of_other_sizes_are_compared_by_sample(root, runner) -> None:
    patched(root)
    runner.fields = {BEFORE: {"samples": 32.0}, AFTER: {"samples": 16.0}}
    found = verified(root)
    assert found.is_per_sample
    assert found.estimate.speedup == pytest.approx(0.625)
    runner.fields = {BEFORE: {"samples": 32.0}, AFTER: {"samples": 31.9}}
    assert not verified(root).is_per_sample
    runner.fields = {BEFORE: {"samples": 32.0}, AFTER: {}}
    assert not verified(root).is_per_sample


def test_memory_is_the_devices_where_there_is_one(root, runner) -> None:
    patched(root)
    runner.fields = {
        BEFORE: {"memory_bytes": 5, "is_on_device": True},
        AFTER: {"memory_bytes": 7, "is_on_device": True},
    }
    memory = verified(root).memory
    assert (memory.of, memory.before, memory.after) == ("device", 5, 7)
    runner.fields = {BEFORE: {"memory_bytes": 5}, AFTER: {}}
    memory = verified(root).memory
    assert (memory.of, memory.before, memory.after) == ("processes", 5, None)


def test_the_measurement_is_kept_before_a_resume_is_tried_and_whatever_comes_of_it(root, runner, monkeypatch) -> None:
    kept = []

    class Killed(BaseException):
        pass

    def tried(runner, seconds, deadline):
        raise Killed

    patched(root)
    runner.recorded = {side: {"frameworks": {"lightning": {}}} for side in SIDES}
    monkeypatch.setattr(api.predictions, "append", lambda root, run, *told: kept.append(told))
    monkeypatch.setattr(resume, "test_resume", tried)
    with pytest.raises(Killed):
        verified(root)
    assert kept[0][1] is Verdict.FASTER
    monkeypatch.setattr(resume, "test_resume", lambda *given: Resume(Resumed.NOT_TRIED, "you ended it"))
    found = verified(root)
    assert (found.verdict, found.resume.why) == (Verdict.FASTER, "you ended it")


def test_a_history_that_cannot_be_written_is_a_note(root, runner, monkeypatch) -> None:
    def full(*told):
        raise OSError(28, "No space left on device")

    patched(root)
    monkeypatch.setattr(api.predictions, "append", full)
    found = verified(root)
    assert found.verdict is Verdict.FASTER
    assert "history.jsonl could not be written (No space left on device)" in found.notes[-1]


def test_a_budget_that_cannot_suffice_is_refused_after_the_first_start_and_the_next_time_before_it(
    root, runner
) -> None:
    patched(root)
    with pytest.raises(UsageError, match="4 s cannot suffice: a run takes about 3 s, by its first one"):
        verified(root, budget_s=4.0)
    assert len(runner.requests) == 1
    runner.requests.clear()
    with pytest.raises(UsageError, match="4 s cannot suffice: a run takes about 3 s, by its last verification"):
        verified(root, budget_s=4.0)
    assert runner.requests == []
    assert verified(root).verdict is Verdict.FASTER
    runner.requests.clear()
    with pytest.raises(UsageError, match="4 s cannot suffice: a run takes about 3 s, by its last verification"):
        verified(root, budget_s=4.0)
    assert runner.requests == []


def test_a_budget_that_the_changed_script_makes_too_small_is_refused_after_the_rehearsals(root, runner) -> None:
    patched(root)
    runner.step_ms[AFTER] = 5000.0
    with pytest.raises(UsageError, match="60 s are too few"):
        verified(root, budget_s=60.0)
    assert len(runner.requests) == 2


def test_a_verification_that_was_refused_after_its_first_start_goes_on_with_both(root, runner) -> None:
    patched(root)
    with pytest.raises(UsageError, match="cannot suffice"):
        verified(root, budget_s=4.0)
    found = verified(root, resume=True)
    assert len(runner.requests) == 2 + len(found.schedule.order)


def slow(monkeypatch) -> list[tuple[str, ...]]:
    """Diagnoses saw starts of 80 s. The runs that are asked for, at each time."""
    asked = []

    def newest(root, runs):
        asked.append(tuple(runs))
        return api.budget_check.Seen(asked[-1][0], RunResult(BEFORE, 1000.0, 20, 3, 83.0), 120.0)

    monkeypatch.setattr(api.budget_check, "newest", newest)
    return asked


def test_the_diagnosis_judges_where_a_file_changed_since_the_last_verification(root, runner, monkeypatch) -> None:
    patched(root)
    assert verified(root).verdict is Verdict.FASTER
    runner.requests.clear()
    slow(monkeypatch)
    monkeypatch.setattr(api.pair_store, "conditions", lambda *given: {"the machine": "another one"})
    with pytest.raises(UsageError, match="60 s cannot suffice: a run takes about 80 s, by the diagnosis"):
        verified(root)
    assert runner.requests == []


def test_another_script_is_judged_by_the_newest_diagnosis_of_the_command(root, runner, monkeypatch) -> None:
    asked = slow(monkeypatch)
    runs = [artefacts.new_run(root) for _ in range(3)]
    for run, words in zip(runs, [("train.py",), ("train.py",), ("other.py",)], strict=True):
        state.store_command(root, run.name, words, root, None)
    with pytest.raises(UsageError, match="60 s cannot suffice"):
        verified(root, against="other.py")
    assert set(asked[0][2:]) == {run.name for run in runs[:2]}


def test_a_budget_that_cannot_suffice_by_the_diagnosis_starts_nothing(root, runner, monkeypatch) -> None:
    run, asked = patched(root), slow(monkeypatch)
    with pytest.raises(UsageError, match=f"60 s cannot suffice: a run takes about 80 s, by the diagnosis {run}"):
        verified(root, budget_s=60.0)
    assert asked[0][0] == run
    assert runner.requests == []
    assert verified(root, budget_s=600.0).verdict is Verdict.FASTER


def test_processes_that_may_be_stopped_take_turns_where_there_is_memory_for_both(root, runner, monkeypatch) -> None:
    patched(root)
    runner.fields = {side: {"may_be_stopped": True, "memory_bytes": 1000, "wait_s": 0.0} for side in SIDES}
    monkeypatch.setattr(api, "free_resources", lambda: schedule.FreeResources(2000, 2.0))
    assert verified(root).schedule.turns is None
    assert runner.together == []
    monkeypatch.setattr(api, "free_resources", lambda: schedule.FreeResources(4000, 2.0))
    found = verified(root)
    assert found.schedule.turns == TimeSlicing(pytest.approx(0.8 * 0.7), TURN_S)
    assert runner.together[:2] == [(BEFORE, AFTER), (AFTER, BEFORE)]
    assert 2 * len(runner.together) == len(found.schedule.order)


def test_a_script_that_does_not_run_twice_at_once_is_measured_one_after_the_other(root, runner, monkeypatch) -> None:
    patched(root)
    runner.fields = {side: {"may_be_stopped": True, "memory_bytes": 1000, "wait_s": 0.0} for side in SIDES}
    runner.fails_together = True
    monkeypatch.setattr(api, "free_resources", lambda: schedule.FreeResources(4000, 2.0))
    found = verified(root)
    assert len(runner.together) == 2
    assert found.schedule.turns is None
    assert found.verdict is Verdict.FASTER


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_other_work_is_no_reason_to_refuse(root, runner, share: float) -> None:
    patched(root)
    runner.fields = {side: {"others_share": share, "busy_share": 1.0, "cpus": 1.0} for side in SIDES}
    found = verified(root)
    assert found.verdict is Verdict.FASTER
    assert len(runner.requests) == 2 + len(found.schedule.order)
    assert ("as busy as this one was" in found.worth) == (share > 0)


def test_all_starts_on_the_clock_of_a_cpu_are_told_by_it(root, runner) -> None:
    patched(root)
    crowded = {"others_share": 0.5, "busy_share": 1.0}
    runner.fields = {
        side: {"cpu_ms": ms, "asleep_share": 0.0, **crowded} for side, ms in ((BEFORE, 60.0), (AFTER, 40.0))
    }
    found = verified(root)
    assert (found.clock, found.verdict) == (Clock.CPU, Verdict.FASTER)
    assert found.estimate.speedup == pytest.approx(1.5)
    assert found.step_ms == (60.0, 40.0)


def noisy(monkeypatch, runner, spread: float) -> None:
    """Starts of the changed side that differ by so much from one to the next."""
    run = Runner.run

    def ran(self, side, request):
        runner.step_ms[AFTER] = 80.0 * (1 + spread * (len(runner.requests) % 3))
        return run(self, side, request)

    monkeypatch.setattr(Runner, "run", ran)


def test_it_goes_on_from_the_pairs_that_are_there(root, runner, monkeypatch) -> None:
    run = patched(root)
    noisy(monkeypatch, runner, 0.5)
    first = verified(root, budget_s=36.0)
    made = len(first.schedule.order) // 2
    assert first.verdict is Verdict.CANNOT_TELL
    announced: list = []
    second = verified(root, announced, budget_s=20.0, resume=True)
    more = len(second.schedule.order) // 2
    assert more > made
    assert len(runner.requests) == 2 * (more - made)
    assert [side for side, _ in runner.requests] == list(schedule.order(more))[2 * made :]
    assert second.schedule.order == schedule.order(more)
    assert (second.schedule.steps, second.schedule.warmup) == (first.schedule.steps, first.schedule.warmup)
    assert (announced[0][0].order[0], announced[0][2]) == (second.schedule.order[2 * made], first.against)
    assert second.estimate.high / second.estimate.low < first.estimate.high / first.estimate.low
    apply.write(apply.plan(apply.ApplyOptions(), cwd=root))
    third = verified(root, budget_s=20.0, resume=True)
    assert third.against == "patch 1 (applied)"
    assert len(third.schedule.order) // 2 > more
    assert run in first.against


def test_without_it_a_verification_begins_anew(root, runner) -> None:
    patched(root)
    first, second = verified(root), verified(root)
    assert first.schedule.order == second.schedule.order
    assert len(runner.requests) == 2 + len(second.schedule.order)


def test_it_goes_on_after_a_start_that_failed_or_was_interrupted(root, runner, monkeypatch) -> None:
    patched(root)
    run = Runner.run

    def ended(self, side, request):
        if len(runner.requests) >= 6:
            raise KeyboardInterrupt
        return run(self, side, request)

    with monkeypatch.context() as patch_, pytest.raises(KeyboardInterrupt):
        patch_.setattr(Runner, "run", ended)
        verified(root)
    found = verified(root, resume=True)
    assert found.verdict is Verdict.FASTER
    assert len(runner.requests) == len(found.schedule.order) - 4


def test_it_goes_on_from_rehearsals_whose_budget_was_too_small(root, runner) -> None:
    patched(root)
    runner.step_ms[AFTER] = 5000.0
    with pytest.raises(UsageError, match="too few"):
        verified(root, budget_s=60.0)
    found = verified(root, budget_s=1e4, resume=True)
    assert len(runner.requests) == len(found.schedule.order)
    assert found.verdict is Verdict.SLOWER


def test_its_hash_seed_is_that_of_the_pairs_that_are_there(root, runner, monkeypatch) -> None:
    seeds, made = [], api.SideRunner

    def seeded(root, cwd, environ, *rest):
        seeds.append(environ["PYTHONHASHSEED"])
        return made(root, cwd, environ, *rest)

    monkeypatch.setattr(api, "SideRunner", seeded)
    patched(root)
    for options in ({}, {"resume": True}, {}):
        verified(root, **options)
    assert seeds[0] == seeds[1] != seeds[2]


def test_what_is_not_the_same_any_more_is_refused(root, runner, monkeypatch) -> None:
    patched(root)
    with pytest.raises(UsageError, match="this version of autotune stored no verification of this command and change"):
        verified(root, resume=True)
    verified(root)
    with pytest.raises(UsageError, match="this version of autotune stored no verification of this command"):
        verified(root, words=("train.py", "--lr", "1"), resume=True)
    monkeypatch.setattr(api.pair_store, "conditions", lambda *given: {"the machine": "another one"})
    with pytest.raises(UsageError, match="different from the stored verification: the machine"):
        verified(root, resume=True)


def test_a_resume_that_was_tried_is_not_tried_again(root, runner, monkeypatch) -> None:
    tried = []
    patched(root)
    runner.recorded = {side: {"frameworks": {"lightning": {}}} for side in SIDES}
    monkeypatch.setattr(resume, "test_resume", lambda *given: tried.append(1) or Resume(Resumed.OK, "went on"))
    assert [verified(root, **options).resume.why for options in ({}, {"resume": True})] == ["went on", "went on"]
    assert len(tried) == 1


def test_pairs_that_cannot_be_kept_are_a_note(root, runner, monkeypatch) -> None:
    def full(place, known):
        place.why_not = "its pairs could not be stored"

    patched(root)
    monkeypatch.setattr(api.pair_store.VerificationFile, "save", full)
    assert verified(root).notes[-1] == "its pairs could not be stored"


def test_a_start_up_that_exceeds_the_budget_ends_it(root, runner) -> None:
    patched(root)
    runner.collected[BEFORE] = {"ended_by": "startup_limit", "recordings": ()}
    with pytest.raises(
        UsageError, match=r"no optimizer step in 1 s, and a verification needs at least 6 runs"
    ) as failed:
        verified(root)
    assert failed.value.to_do == "Give it a budget for 6 runs, each of them longer than that."
    assert [one.startup_limit_s for _, one in runner.requests] == [60.0]


def test_the_second_rehearsal_gets_what_the_first_one_left(root, runner, monkeypatch) -> None:
    patched(root)
    moments = iter([0.0, *[20.0] * 99])
    monkeypatch.setattr(api.time, "monotonic", lambda: next(moments))
    with pytest.raises(UsageError, match="too few"):
        verified(root, budget_s=25.0)
    assert [one.startup_limit_s for _, one in runner.requests] == [25.0, 5.0]


@pytest.mark.parametrize("ended_by", ["probe", "time_limit"])
def test_a_warm_up_that_exceeds_the_budget_ends_it(root, runner, ended_by) -> None:
    patched(root)
    runner.collected[BEFORE] = {"ended_by": ended_by, "wall_s": 70.0}
    runner.recorded[BEFORE] = {"window": None}
    with pytest.raises(UsageError, match="measured no step in 70 s") as failed:
        verified(root)
    assert failed.value.where == "--budget"


def test_a_start_may_take_the_budget(root, runner) -> None:
    patched(root)
    runner.step_ms = dict.fromkeys(SIDES, 500.0)
    verified(root, budget_s=10_000.0, loss_steps=500)
    assert {round(one.time_limit_s) for _, one in runner.requests} == {10_000}


@pytest.mark.parametrize(
    ("side", "said"), [(BEFORE, "the unchanged script failed"), (AFTER, "the changed script failed")]
)
def test_a_script_that_fails_after_some_steps_is_no_result(root, runner, side: str, said: str) -> None:
    patched(root)
    error = {"type": "ValueError", "message": "", "traceback": ["train.py:3 main"], "phase": None}
    runner.recorded[side] = {"outcome": "raised", "error": error}
    with pytest.raises(ScriptError, match=f"{said}: ValueError at train.py:3 main") as failed:
        verified(root)
    assert ("Your files are unchanged" in failed.value.to_do) == (side == AFTER)


def test_a_file_outside_the_project_is_refused(root, runner, tmp_path_factory) -> None:
    other = tmp_path_factory.mktemp("other") / "settings.py"
    other.write_text(OLD)
    patched(root, file=str(other))
    with pytest.raises(UsageError, match="lies outside the project"):
        verified(root)


def test_no_script_is_wrong_usage(root) -> None:
    with pytest.raises(UsageError, match="no script"):
        verified(root, words=())


def test_a_project_without_a_run_says_so(root) -> None:
    with pytest.raises(UsageError, match="no run yet"):
        verified(root)


SCRIPT = """
    import pathlib
    import time
    import torch
    from settings import lr

    torch.manual_seed(0)
    assert pathlib.Path(__file__).resolve().with_name("data.bin").read_bytes() == b"data"
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    data = torch.randn(64, 8)
    for step in range(100_000):
        time.sleep(0.01)
        loss = (model(data) - data.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.save(model.state_dict(), "last.pt")
"""


def tree(root: Path) -> dict[str, str]:
    files: list[Path] = []
    for folder, below, names in os.walk(root):
        # Runs come and go in there while this looks.
        below[:] = [name for name in below if name != ".autotune"]
        files += [Path(folder, name) for name in names]
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def project(place):
    place.write("pyproject.toml", "")
    place.write("settings.py", OLD)
    place.write("train.py", SCRIPT)
    place.write("data.bin", "data")
    return place


def really(place, **fields):
    options = api.VerifyOptions(**{"words": ("train.py",), "python": sys.executable, "lock": False, **fields})
    return api.verify(options, lambda *told: None, lambda status: None, cwd=place.cwd, environ=place.environ)


STEPS = """
    import sys, time
    import torch
    from torch.utils.data import DataLoader

    kind, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    size = 1024 if threads > 1 else 256
    model, data = torch.nn.Linear(size, size), torch.randn(size, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)


    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 10_000

        def __getitem__(self, index):
            value = torch.ones(1024)
            for _ in range(4000):
                value = value.sin()
            return value[:1]


    def batches():
        if kind == "worker":
            yield from DataLoader(Samples(), num_workers=1)
        while True:
            yield None


    for _ in batches():
        for _ in range(1 if kind == "worker" else 10):
            loss = model(data).pow(2).mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if kind == "sleep":
            time.sleep(0.01)
"""


DISTURBED_STARTS = 3


@pytest.mark.train
@pytest.mark.parametrize(
    ("kind", "threads", "chosen"),
    [
        ("compute", 1, Clock.CPU),
        pytest.param("compute", 2, Clock.WALL, marks=pytest.mark.long),
        ("sleep", 1, Clock.WALL),
        pytest.param(
            "worker", 1, Clock.LOADER, marks=pytest.mark.skipif((num_cpus() or 0) < 2, reason="it needs two CPUs")
        ),
    ],
)
def test_of_real_starts_the_clock_is_what_their_steps_consist_of(place, kind: str, threads: int, chosen: Clock) -> None:
    if clock.queued() is None:
        pytest.skip("this system does not tell how long a thread waits for a CPU")
    place.write("pyproject.toml", "")
    place.write("train.py", STEPS)
    compared = sides.other(("train.py", kind, str(threads)), "train.py")
    runner = RealRunner(place.cwd, place.cwd, place.environ, sys.executable, compared, {}, lambda status: None)
    starts = (runner.run(BEFORE, collect.Request(steps=15, what_ifs=False))[1] for _ in range(DISTURBED_STARTS + 1))
    # On a busy host any one start may wait for its virtual CPUs, which counts as sleep.
    start = next((start for start in starts if clocks.clock([start]) is chosen), None)
    assert start is not None
    assert start.cpus is not None


@pytest.mark.train
@pytest.mark.long
def test_a_real_patch_that_changes_the_loss_is_caught_and_no_file_changes(project, monkeypatch) -> None:
    # However the times disagree: the losses of the first pairs decide.
    monkeypatch.setattr(pairs, "MOST_LOOKS", 1)
    monkeypatch.setattr(schedule, "MOST_PAIRS", schedule.LEAST_PAIRS)
    monkeypatch.setattr(schedule, "WINDOW_S", 0.3)
    monkeypatch.setattr(schedule, "LONG_WINDOW_S", 0.3)
    run = patched(project.cwd, effect=Effect.EXACT)
    before = tree(project.cwd)
    found = really(project, budget_s=250.0, loss_steps=20)
    assert found.losses.sameness is LossVerdict.DIFFERENT
    assert "classified as exact, but step 2 has" in found.losses.why
    assert found.losses.steps >= 20
    assert found.verdict in Verdict
    assert found.memory.before > 10 << 20
    assert tree(project.cwd) == before
    assert [path.name for path in (project.cwd / ".autotune" / "runs").iterdir()] == [run]


@pytest.mark.train
def test_a_patch_that_crashes_the_script_is_reported(project, capfd) -> None:
    (project.cwd / "settings.py").write_text("lr = 0.1")
    data = (project.cwd / "settings.py").read_bytes()
    edit = Edit("settings.py", "lr", "0.1", "{}[0.1]", sha256=digest(data))
    broken = replace(change(project.cwd), edits=(edit,))
    store = PatchStore(project.cwd, state.project(project.cwd) / PATCHES)
    patch.write(store, "x", [(project.cwd / "settings.py", data, b"lr = {}[0.1]")])
    patch.undo(store)
    run = artefacts.new_run(project.cwd)
    artefacts.write_patch(run / NAME, dumps(Patch(str(project.cwd), run.name, ("train.py",), (broken,))))
    (run / "run.json").write_text("{}")
    before = tree(project.cwd)
    with pytest.raises(ScriptError) as failed:
        really(project, patch=run.name)
    assert failed.value.exit_code == 3
    assert failed.value.what == f"the changed script failed: KeyError at {project.cwd}/settings.py:1 <module>"
    assert "KeyError: 0.1" in capfd.readouterr().err
    assert tree(project.cwd) == before
    assert [path.name for path in (project.cwd / ".autotune" / "runs").iterdir()] == [run.name]


@pytest.mark.train
@pytest.mark.parametrize(
    ("number", "code", "folders"),
    # The mirror's folder and that of a rehearsal, or those of two starts that take turns.
    [(signal.SIGTERM, 143, 2), (signal.SIGHUP, 129, 2), (signal.SIGINT, 130, 3)],
)
def test_being_ended_leaves_no_process_and_no_scratch(project, number: int, code: int, folders: int) -> None:
    run = patched(project.cwd)
    # A budget that no busy machine uses up.
    words = ["verify", "--no-lock", "--budget", "1h", "--python", sys.executable, "train.py"]
    path = str(Path(collect.__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-m", "autotune", *words],
        cwd=project.cwd,
        env={**project.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as asked:
        try:
            while len(list((project.cwd / ".autotune" / "runs").iterdir())) < 1 + folders:
                assert asked.poll() is None
                time.sleep(0.1)
            time.sleep(2)
            before = tree(project.cwd)
            asked.send_signal(number)
            _, err = asked.communicate(timeout=60)
        finally:
            asked.kill()
    assert asked.returncode == code
    assert b"Traceback" not in err
    assert [one.name for one in (project.cwd / ".autotune" / "runs").iterdir()] == [run]
    assert tree(project.cwd) == before
    assert not [one for one in psutil.process_iter(["cwd"]) if str(project.cwd) in str(one.info["cwd"])]


def test_a_look_at_the_pairs_counts_when_the_verification_is_interrupted_after_it(root, runner, monkeypatch) -> None:
    looks: list[tuple[int, int]] = []

    def inconclusive(starts, rehearsed, look):
        looks.append((len(starts) // 2, look))
        if len(looks) == interrupted_at:
            raise KeyboardInterrupt
        return False

    patched(root)
    monkeypatch.setattr(api.summary, "is_conclusive", inconclusive)
    interrupted_at = 2
    with pytest.raises(KeyboardInterrupt):
        verified(root)
    at_interruption = looks[-1][0]
    interrupted_at = 0
    verified(root, resume=True)
    assert [look for _, look in looks] == [1, 2, 3, 4]  # the fifth, the last one, is not asked
    assert looks[2][0] > at_interruption
