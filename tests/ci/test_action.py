"""action.yml, run step by step as a runner runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from consumers import PROJECT, read, run_action


def test_findings_are_annotated_and_summed_up_and_fail(faulty: Path, temp: Path) -> None:
    step = run_action(faulty, temp, fail_on="info")
    assert step.code == 1
    assert re.search(r"^::(error|warning|notice) file=train\.py,line=3,", step.log, re.MULTILINE)
    assert "| severity | where | rule | what |" in step.summary
    assert "**Fails**, exit 1" in step.summary


def test_a_repository_without_grave_findings_passes(healthy: Path, temp: Path) -> None:
    step = run_action(healthy, temp)
    assert step.code == 0, step.log
    assert "**Passes**, exit 0" in step.summary


def test_the_package_is_installed_from_the_folder_of_the_action(healthy: Path, temp: Path) -> None:
    assert run_action(healthy, temp).pip[-1] == str(PROJECT)


def test_a_released_version_can_be_asked_for(healthy: Path, temp: Path) -> None:
    assert run_action(healthy, temp, version="0.9.1").pip[-1] == "autotune-advisor==0.9.1"


def test_the_format_is_that_of_the_log_alone(faulty: Path, temp: Path) -> None:
    step = run_action(faulty, temp, format="text", fail_on="info")
    assert "\n  seen   " in step.log
    assert "::" not in step.log
    assert "| severity |" in step.summary


def test_further_options_and_paths_are_split_as_words(faulty: Path, temp: Path) -> None:
    (faulty / "my configs").mkdir()
    step = run_action(faulty, temp, paths='"my configs"', args="--ignore 'EN, DL'", fail_on="info")
    assert step.code == 0, step.log
    assert "no training was recognised" in step.log


def test_no_input_is_evaluated(faulty: Path, temp: Path) -> None:
    hostile = "$(touch pwned) `touch pwned` ; touch pwned"
    step = run_action(faulty, temp, paths=hostile, args=hostile)
    assert step.code != 0
    assert not (faulty / "pwned").exists()
    assert [each["run"] for each in read("action.yml")["runs"]["steps"] if "${{" in each["run"]] == []


def test_sarif_is_written_without_what_is_silenced(faulty: Path, temp: Path) -> None:
    run_action(faulty, temp, sarif="autotune.sarif")
    log = json.loads((faulty / "autotune.sarif").read_text(encoding="utf-8"))
    found = [each["ruleId"] for each in log["runs"][0]["results"]]
    assert found

    script = (
        (faulty / "train.py").read_text().replace(")\nTrainer", ")  # autotune: ignore[EN012] kept for old\nTrainer")
    )
    (faulty / "train.py").write_text(script)
    (temp / "again").mkdir()
    run_action(faulty, temp / "again", sarif="autotune.sarif")
    log = json.loads((faulty / "autotune.sarif").read_text(encoding="utf-8"))
    assert [each["ruleId"] for each in log["runs"][0]["results"]] == [rule for rule in found if rule != "EN012"]


def test_a_wrong_option_fails_before_anything_is_written(healthy: Path, temp: Path) -> None:
    step = run_action(healthy, temp, args="--no-such-option", sarif="autotune.sarif")
    assert step.code != 0
    assert "--no-such-option" in step.log
    assert step.summary == ""
    assert not (healthy / "autotune.sarif").exists()


def test_every_input_is_read() -> None:
    action = read("action.yml")
    used = {name for step in action["runs"]["steps"] for name in re.findall(r"inputs\.([\w-]+)", str(step["env"]))}
    assert used == set(action["inputs"])
