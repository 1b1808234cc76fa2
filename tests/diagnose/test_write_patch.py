"""What the script's own libraries refuse is never offered as an edit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune.diagnose.construction import PatchTarget, check_construction
from autotune.diagnose.write_patch import locate_edits
from autotune.engine.load import load_rules
from autotune.model.evidence import RUN, Evidence, Location, Value
from autotune.model.finding import Evaluation, Finding, Recommendation, SettingChange
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.report import Report, RunSummary
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED, ConsumerCall, WrittenValue
from autotune.patch import with_dependencies
from autotune.patch.file import dumps, loads
from autotune.patch.journal import sha256
from autotune.patch.plan import PlannedChange

AT = Location("train.py", 3, "DataLoader")
EDIT = Edit("train.py", "k", "1", "2", sha256="0" * 64)


def planned(
    setting: str,
    arguments: dict[str, Value],
    *needs: str,
    before: dict[str, Value] | None = None,
    subject: str = "loader#train",
) -> PlannedChange:
    given = {key: WrittenValue(key, value, AT) for key, value in (before or {}).items()}
    call = ConsumerCall("torch", "DataLoader", subject, given, AT)
    change = PatchChange(setting, subject, None, 2, ("DL001",), Effect.EXACT, edits=(EDIT,), needs=needs)
    return PlannedChange(change, (call,), arguments)


@pytest.fixture
def place(tmp_path: Path) -> PatchTarget:
    return PatchTarget(tmp_path, tmp_path, tmp_path, {"PATH": "/usr/bin:/bin"})


def test_what_the_library_takes_stays_an_edit(place: PatchTarget) -> None:
    (change,) = check_construction([planned("loader.num_workers", {"num_workers": 2})], sys.executable, place)
    assert change.edits == (EDIT,)


def test_what_the_library_refuses_is_by_hand_in_its_words(place: PatchTarget) -> None:
    (change,) = check_construction([planned("loader.prefetch_factor", {"prefetch_factor": 4})], sys.executable, place)
    assert not change.edits
    assert change.by_hand.startswith("loader.prefetch_factor = 2: DataLoader raises ValueError: prefetch_factor")


def test_a_change_is_tried_with_those_that_it_needs(place: PatchTarget) -> None:
    workers = planned("loader.num_workers", {"num_workers": 2})
    prefetch = planned("loader.prefetch_factor", {"prefetch_factor": 4}, "loader.num_workers")
    assert all(change.edits for change in check_construction([workers, prefetch], sys.executable, place))


def test_another_loader_s_change_of_that_name_is_not_what_is_needed(place: PatchTarget) -> None:
    workers = planned("loader.num_workers", {"num_workers": 2}, subject="loader#2")
    prefetch = planned("loader.prefetch_factor", {"prefetch_factor": 4}, "loader.num_workers")
    first, second = check_construction([workers, prefetch], sys.executable, place)
    assert first.edits == (EDIT,)
    assert second.by_hand.startswith("loader.prefetch_factor = 2: DataLoader raises ValueError: prefetch_factor")


def test_what_is_refused_takes_nothing_else_with_it(place: PatchTarget) -> None:
    workers = planned("loader.num_workers", {"num_workers": 2})
    prefetch = planned("loader.prefetch_factor", {"prefetch_factor": -1}, "loader.num_workers")
    first, second = check_construction([workers, prefetch], sys.executable, place)
    assert first.edits == (EDIT,)
    assert not second.edits


def test_of_changes_that_are_refused_only_together_the_first_stays(place: PatchTarget) -> None:
    before: dict[str, Value] = {"num_workers": 2}
    none = planned("loader.num_workers", {"num_workers": 0}, before=before)
    live = planned("loader.persistent_workers", {"persistent_workers": True}, before=before)
    first, second = check_construction([none, live], sys.executable, place)
    assert first.edits == (EDIT,)
    assert not second.edits
    assert "conflicts with loader.num_workers = 2: DataLoader raises ValueError" in second.by_hand


@pytest.mark.parametrize(("before", "are_written"), [({}, True), ({"prefetch_factor": 4}, False)])
def test_what_one_rule_asks_for_is_written_whole_or_not_at_all(
    before: dict[str, Value], are_written: bool, place: PatchTarget
) -> None:
    given: dict[str, Value] = {"num_workers": 2, "persistent_workers": True, **before}
    none = planned("loader.num_workers", {"num_workers": 0}, "loader.persistent_workers", before=given)
    ended = planned("loader.persistent_workers", {"persistent_workers": False}, "loader.num_workers", before=given)
    changes = tuple(with_dependencies(check_construction([none, ended], sys.executable, place)))
    assert [bool(change.edits) for change in changes] == [are_written, are_written]
    assert any("prefetch_factor" in change.by_hand for change in changes) is not are_written


def test_what_cannot_be_constructed_and_what_is_by_hand_pass(place: PatchTarget) -> None:
    by_hand = PlannedChange(PatchChange("data.padding", RUN, None, "longest", (), Effect.EXACT, by_hand="do it"))
    other = planned("model.attention", {"attn_implementation": "sdpa"})
    call = ConsumerCall("torch", "from_pretrained", RUN, {}, AT)
    other = PlannedChange(other.change, (call,), other.arguments)
    assert check_construction([by_hand, other], sys.executable, place) == (by_hand.change, other.change)


TEXT = b"import os\nWORKERS = 0\n\nDataLoader(x, num_workers=WORKERS)\n"
NAME = Edit("train.py", "WORKERS", "0", "4", sha256=sha256(TEXT))


def reported(folder: Path, edit: Edit, text: bytes = TEXT, place: Location | None = None) -> Report:
    """A report that names `place` for a change that its patch writes as `edit`; train.py is `text` by now."""
    (folder / "train.py").write_bytes(text)
    change = SettingChange("loader.num_workers", 0, 4, Effect.EQUIVALENT, place, "num_workers")
    written = PatchChange("loader.num_workers", "loader#train", 0, 4, ("DL001",), Effect.EQUIVALENT, edits=(edit,))
    (folder / "patch.yaml").write_text(dumps(Patch(str(folder), "r", ("train.py",), (written,))))
    rule = next(rule for rule in load_rules() if rule.id == "DL001")
    finding = Finding(rule, "loader#train", "", (change,), (), None, None)
    return Report(
        run=RunSummary(folder="", command=(), outcome="completed"),
        machine={},
        software={},
        step=None,
        evidence=Evidence({}, {}),
        evaluation=Evaluation((finding,), (), ()),
        recommendations=(Recommendation(1, (finding,), (change,), Effect.EQUIVALENT),),
        patch=str(folder / "patch.yaml"),
    )


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (NAME, ("train.py", 2)),
        (Edit("train.py", "set_num_threads()", "", "4", sha256=sha256(TEXT)), ("train.py", 2)),
        (Edit(TYPED, "--workers", "0", "4"), (TYPED, 1)),
    ],
)
def test_the_report_names_the_place_that_the_patch_writes(
    tmp_path: Path, edit: Edit, expected: tuple[str, int]
) -> None:
    call = Location(str(tmp_path / "train.py"), 4, "DataLoader")
    made = locate_edits(reported(tmp_path, edit, place=call))
    (one,) = made.recommendations
    assert one.changes == one.first.changes == made.evaluation.findings[0].changes
    at = one.changes[0].location
    assert at is not None
    name = at.file if at.file == TYPED else Path(at.file).relative_to(tmp_path).as_posix()
    assert (name, at.line) == expected


@pytest.mark.parametrize("is_by_hand", [True, False])
def test_a_recommendation_that_the_patch_cannot_write_says_why(tmp_path: Path, is_by_hand: bool) -> None:
    report = reported(tmp_path, NAME)
    made = loads((tmp_path / "patch.yaml").read_bytes(), "patch.yaml")
    (written,) = made.changes
    by_hand = replace(written, edits=(), by_hand="num_workers = 4: not found")
    (tmp_path / "patch.yaml").write_text(dumps(replace(made, changes=(by_hand if is_by_hand else written,))))
    (one,) = locate_edits(report).recommendations
    assert one.by_hand == (("num_workers = 4: not found",) if is_by_hand else ())
    assert one.is_free is not is_by_hand


def test_a_place_that_is_the_same_keeps_what_is_known_of_it(tmp_path: Path) -> None:
    place = Location(str(tmp_path / "train.py"), 2, "DataLoader", key="WORKERS")
    assert locate_edits(reported(tmp_path, NAME, place=place)).recommendations[0].changes[0].location == place


def test_of_a_file_that_changed_since_and_a_damaged_patch_nothing_is_taken(tmp_path: Path) -> None:
    call = Location(str(tmp_path / "train.py"), 4, "DataLoader")
    report = reported(tmp_path, NAME, b"# mine\n" + TEXT, call)
    assert locate_edits(report) == report
    (tmp_path / "patch.yaml").write_text("{")
    assert locate_edits(report) == report
