"""The pairs of a verification are kept, and another one goes on from them where everything is the same."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from verify_builders import start

from autotune import state
from autotune.errors import UsageError
from autotune.model.verified import AFTER, BEFORE, Resume, Resumed, Schedule, TimeSlicing
from autotune.verify import pair_store
from autotune.verify.schedule import order
from autotune.verify.sides import Sides


def sides(root: Path, *, before: bytes = b"lr = 0.1\n", after: bytes = b"lr = 0.9\n", words=("train.py",)) -> Sides:
    path = root / "settings.py"
    return Sides("x", dict.fromkeys((BEFORE, AFTER), words), {BEFORE: {path: before}, AFTER: {path: after}})


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "settings.py").write_text("lr = 0.1\n")
    (project / "train.py").write_text("import settings\n")
    (project / "data" / "rows.bin").write_bytes(b"1")
    return project


def kept_of(**fields) -> pair_store.StoredVerification:
    starts = tuple(start(side, losses=(None, math.nan, 0.5)) for side in order(3))
    given = {
        "conditions": {"the machine": "1"}, "hash_seed": "7", "rehearsed": (start(), start(AFTER)), "starts": starts,
        "notes": ("the edit did not reach the run",),
        "planned": Schedule(order(3), 10, 3, 30.0, TimeSlicing(1.0, 0.04)), "looks": 2, "trial_why": "no trainer",
        "trial_s": 4.0, "resume": Resume(Resumed.OK, "went on"), **fields,
    }  # fmt: skip
    return pair_store.StoredVerification(**given)


@pytest.mark.parametrize("fields", [{}, {"planned": None, "starts": (), "resume": None, "looks": 0}])
def test_what_is_kept_comes_back(root, fields) -> None:
    place = pair_store.place(root, sides(root))
    assert place.load() is None
    place.save(kept_of(**fields))
    found = place.load()
    assert repr(found) == repr(kept_of(**fields))  # NaN is not equal to itself
    assert place.why_not == ""
    assert pair_store.resumed(place.load(), {"the machine": "1"}) is not None


def test_a_patch_is_the_same_whether_it_is_written_or_not_and_of_any_name(root) -> None:
    assert (
        pair_store.place(root, sides(root)).key == pair_store.place(root, replace(sides(root), against="patch 1")).key
    )
    others = [sides(root, words=("train.py", "--lr", "1")), sides(root, after=b"lr = 1\n"), sides(root, before=b"")]
    assert len({pair_store.place(root, one).key for one in [sides(root), *others]}) == 4


def test_without_anything_kept_there_is_nothing_to_go_on_from(root) -> None:
    with pytest.raises(UsageError, match="this version of autotune stored no verification of this command and change"):
        pair_store.resumed(None, {})


def conditions(root: Path, **environ: str) -> dict[str, str]:
    return pair_store.conditions(root, sides(root), sys.executable, {"PATH": "/bin", **environ})


def changed(root: Path, before: dict[str, str], after: dict[str, str]) -> str:
    """What the refusal names."""
    place = pair_store.place(root, sides(root))
    place.save(kept_of(conditions=before))
    with pytest.raises(UsageError) as refused:
        pair_store.resumed(place.load(), after)
    return refused.value.what.partition("stored verification: ")[2]


def test_the_same_project_on_the_same_machine_is_the_same(root) -> None:
    before = conditions(root)
    (root / "settings.py").write_text("lr = 0.9\n")  # the patch itself is written meanwhile
    (root / "data" / "rows.bin").write_bytes(b"2")
    (root / ".autotune").mkdir()
    (root / ".autotune" / "run.json").write_text("{}")
    after = conditions(root, HOME="/elsewhere")
    place = pair_store.place(root, sides(root))
    place.save(kept_of(conditions=before))
    assert pair_store.resumed(place.load(), after).starts


def test_what_changed_since_is_named(root) -> None:
    before = conditions(root)
    (root / "train.py").write_text("import settings, os\n")
    assert changed(root, before, conditions(root)) == "train.py"
    (root / "train.py").write_text("import settings\n")
    (root / "config.yaml").write_text("lr: 1\n")
    assert changed(root, before, conditions(root)) == "config.yaml"
    (root / "config.yaml").unlink()
    assert changed(root, before, conditions(root, OMP_NUM_THREADS="1")) == "the environment variables"
    assert changed(root, before, {**conditions(root), "the machine": "other"}) == "the machine"
    for name in "abcd":
        (root / f"{name}.py").write_text("")
    assert changed(root, before, conditions(root)) == "a.py, b.py, c.py and 1 more"


def test_a_script_outside_the_project_counts(root, tmp_path) -> None:
    script = tmp_path / "train.py"
    script.write_text("1")
    of = sides(root, words=(str(script),))
    before = pair_store.conditions(root, of, sys.executable, {})
    script.write_text("2")
    assert pair_store.conditions(root, of, sys.executable, {}) != before


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": 3}', "null", '{"schema": 2, "conditions": 1}', '{"schema": 2', "\xff"]
)
def test_a_damaged_file_is_none(root, text: str) -> None:
    place = pair_store.place(root, sides(root))
    place.save(kept_of())
    (file,) = (state.project(root) / pair_store.FOLDER).iterdir()
    file.write_text(text, encoding="latin-1")
    assert place.load() is None


@pytest.mark.parametrize("field", ["rehearsed", "planned", "starts", "hash_seed", "resume", "trial_s"])
def test_a_file_of_another_version_is_none(root, field: str) -> None:
    place = pair_store.place(root, sides(root))
    place.save(kept_of())
    (file,) = (state.project(root) / pair_store.FOLDER).iterdir()
    row = json.loads(file.read_text())
    file.write_text(json.dumps({**row, field: {"unknown": 1}}))
    assert place.load() is None
    del row[field]
    file.write_text(json.dumps(row))
    assert place.load() is None


def test_a_file_of_the_first_format_counts_as_not_stored(root) -> None:
    place = pair_store.place(root, sides(root))
    place.save(kept_of())
    (file,) = (state.project(root) / pair_store.FOLDER).iterdir()
    row = json.loads(file.read_text())
    row["schema"] = 1
    row["starts"] = [{**one, "times_ms": [1.0], "cpu_ms": [1.0]} for one in row["starts"]]
    for old in (row, {**json.loads(file.read_text()), "schema": 1}):
        file.write_text(json.dumps(old))
        assert place.load() is None
    with pytest.raises(UsageError, match="this version of autotune stored no verification"):
        pair_store.resumed(place.load(), {"the machine": "1"})


def test_the_oldest_are_forgotten(root, monkeypatch) -> None:
    monkeypatch.setattr(pair_store, "MOST_KEPT", 2)
    places = [pair_store.place(root, sides(root, words=(f"{name}.py",))) for name in "abc"]
    for place in places:
        place.save(kept_of())
    assert [place.load() is None for place in places] == [True, False, False]


def test_where_nothing_can_be_kept_that_is_said(root, monkeypatch) -> None:
    def full(self, *given, **more):
        raise OSError(28, "No space left on device")

    place = pair_store.place(root, sides(root))
    monkeypatch.setattr(Path, "write_text", full)
    place.save(kept_of())
    assert "its pairs could not be stored" in place.why_not
    assert "No space left on device): --resume cannot continue from them" in place.why_not


def test_before_a_plan_there_is_none() -> None:
    with pytest.raises(ValueError, match="no pair was planned"):
        assert pair_store.StoredVerification({}).plan
