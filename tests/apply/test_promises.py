"""A promise that a restarted job kept or broke calibrates predictions: 3.33 s before, 2.58 s after 1, limit 2.71 s."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
import report_cases
from msgspec.structs import replace

from autotune import state
from autotune.apply import promises
from autotune.cli import run as command_line
from autotune.collect import artefacts
from autotune.history import predictions
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.patch.file import NAME, dumps
from autotune.patch.journal import sha256
from autotune.predict.progress_line import progress

SCRIPT = b"recompute = True\n"
HOUR = 3600.0


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose first recommendation is an edit of train.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_bytes(SCRIPT)
    folder = artefacts.new_run(tmp_path)
    (folder / "recording-1.json").write_text("{}")
    found = stored(folder).recommendations[0].first
    setting = found.changes[0].setting
    edit = Edit("train.py", "recompute", "True", "False", sha256=sha256(SCRIPT))
    change = PatchChange(setting, found.subject, True, False, ("ME001",), Effect.EQUIVALENT, "1.26x", (edit,))
    artefacts.write_patch(folder / NAME, dumps(Patch(str(tmp_path), folder.name, ("train.py",), (change,))))
    artefacts.mark_last(folder)
    return folder


def stored(folder: Path) -> Report:
    made = report_cases.full()
    return replace(made, run=replace(made.run, folder=str(folder)))


def applied(folder: Path, ago_s: float = HOUR) -> None:
    """The change is written, `ago_s` seconds before now."""
    assert command_line(["apply", "--yes"]) == 0
    (journal,) = (state.project(folder.parents[2]) / "patches").glob("*/journal.json")
    then = time.time() - ago_s
    os.utime(journal, (then, then))


def told(folder: Path, rate: str, step: int = 200) -> bool:
    return promises.record(stored(folder), progress(f"{step}/7800 [10:00, {rate}]"), time.time())


def rows(folder: Path) -> list[dict[str, object]]:
    file = state.project(folder.parents[2]) / predictions.FILE
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(
    ("rate", "verdict", "inside"),
    [("2.60s/it", "kept", 1), ("2.20s/it", "kept", 0), ("3.30s/it", "broken", 0), ("4.50s/it", "broken", 0)],
)
def test_a_kept_and_a_broken_promise_are_held_against_the_prediction(
    project: Path, rate: str, verdict: str, inside: int
) -> None:
    applied(project)
    assert told(project, rate)
    (row,) = rows(project)
    assert (row["run"], row["verdict"], row["numbers"]) == (project.name, verdict, [1])
    assert row["measured"] == [pytest.approx(3.33 / float(rate[:4]), rel=0.002)]
    speedup, low, high = row["predicted"]  # type: ignore[misc]
    assert low < speedup < high and speedup == pytest.approx(3.33 / 2.58, rel=0.002)
    found = predictions.calibration(project.parents[2])
    assert found is not None
    assert (found.num, found.num_inside) == (1, inside)
    assert found.median_error == pytest.approx(abs(float(rate[:4]) / 2.58 - 1), abs=0.01)


def test_a_job_that_is_asked_after_again_counts_once(project: Path) -> None:
    applied(project)
    assert told(project, "3.30s/it") and told(project, "2.60s/it", step=300)
    assert [row["verdict"] for row in rows(project)] == ["broken", "kept"]
    found = predictions.calibration(project.parents[2])
    assert found is not None and (found.num, found.num_inside) == (1, 1)


def test_a_job_from_before_the_changes_teaches_nothing(project: Path) -> None:
    assert not told(project, "2.60s/it")  # nothing was written
    applied(project, ago_s=60.0)
    assert not told(project, "2.60s/it")  # 200 steps take 520 s
    assert not told(project, "2.60s/it", step=20)  # no mean yet
    assert rows(project) == []


def test_a_change_that_was_taken_back_is_not_in_the_job(project: Path) -> None:
    applied(project)
    assert command_line(["undo"]) == 0
    assert not told(project, "2.60s/it")


@pytest.mark.parametrize("rate", ["2.90s/it", "30.0s/it"])
def test_what_is_unknown_teaches_nothing(project: Path, rate: str) -> None:
    applied(project)
    assert not told(project, rate)


def test_a_run_that_was_made_elsewhere_teaches_nothing(project: Path, tmp_path: Path) -> None:
    applied(project)
    copy = tmp_path / ".autotune" / "runs" / "20260101-120000-abcdef"
    project.rename(copy)
    assert not told(copy, "2.60s/it")
    assert not promises.record(stored(Path("recording.json")), progress("200/7800 [10:00, 2.60s/it]"), time.time())


@pytest.mark.parametrize("words", [["report"], ["diagnose", "--load", "last"]])
def test_the_command_line_remembers_it_and_says_so(
    words: list[str], project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    applied(project)
    monkeypatch.setattr("autotune.cli.outlook_options.load", lambda name, **asked: stored(project))
    capsys.readouterr()
    assert command_line([*words, "--at", "200/7800 [10:00, 2.60s/it]"]) == 0
    assert "its speed calibrates later predictions" in capsys.readouterr().err
    assert len(rows(project)) == 1
    monkeypatch.setattr("autotune.history.predictions.FILE", "gone/history.jsonl")
    assert command_line([*words, "--at", "200/7800 [10:00, 2.60s/it]"]) == 0
    assert "could not be written" in capsys.readouterr().err
