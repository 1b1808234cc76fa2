from __future__ import annotations

import pytest
from report_builders import gain_from, rule

from autotune.engine.load import load_rules
from autotune.model.evidence import Location, Span
from autotune.model.finding import SettingChange
from autotune.model.report import PHASES
from autotune.model.rule import Effect, GainSpec, Rule
from autotune.report import labels

NO_PHASE = {
    "SY001": "idle gaps of the device lie between phases",
    "SY018": "idle gaps of the device lie between phases",
    "SY012": "a profiler slows all of them down",
    "SY017": "tracing memory slows all of them down",
    "DD007": "communication overlaps with several",
    "GW001": "the message names the phase that grows",
}
"""Rules whose gain acts on no phase that is shown, and why."""

FOLDER = "/home/user/project/.autotune/runs/1"


def test_every_phase_has_a_name() -> None:
    assert tuple(labels.PHASES) == PHASES


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, set()),
        (gain_from("step.recompute_share"), {"recompute"}),
        (gain_from("step.forward_share"), {"forward"}),
        (gain_from("loader.wait_share"), {"data_wait"}),
        (gain_from("loader.input_share"), {"data_wait"}),
        (gain_from("calls.gc_share"), {"other"}),
        (gain_from("run.framework"), set()),
        (gain_from("step.compute_share"), {"forward", "recompute", "backward", "optimizer"}),
        (gain_from("step.all_logging_share"), {"logging"}),
        (GainSpec("share_removed", {"share": "loader.repeated_share", "of": "loader.input_share"}), {"data_wait"}),
        (GainSpec("local_ratio", {"share": "optimizer.step_share", "low": "3", "high": "30"}), {"optimizer"}),
        (GainSpec("amortised", {"cost": "checkpoint"}), {"checkpoint"}),
        (GainSpec("measured_ceiling", {}), {"data_wait"}),
        (GainSpec("workers", {"persistent": "true"}), {"data_wait"}),
        (GainSpec("batch_curve", {"factor": "2"}), {"forward", "recompute", "backward"}),
    ],
)
def test_phases_follow_from_the_gain(spec: GainSpec | None, expected: set[str]) -> None:
    assert labels.phases(rule(gain=spec)) == expected


@pytest.mark.parametrize("made", [each for each in load_rules() if each.gain], ids=lambda each: each.id)
def test_a_gain_of_a_rule_has_a_phase_or_a_reason_why_not(made: Rule) -> None:
    assert bool(labels.phases(made)) is (made.id not in NO_PHASE)


@pytest.mark.parametrize(
    ("file", "folder", "expected"),
    [
        ("/home/user/project/src/train.py", FOLDER, "src/train.py"),
        ("/home/user/other/train.py", FOLDER, "/home/user/other/train.py"),
        ("/opt/v/lib/python3.11/site-packages/trl/sft.py", FOLDER, "trl/sft.py"),
        ("train.py", ".autotune/runs/1", "train.py"),
        ("/a/train.py", "", "/a/train.py"),
    ],
)
def test_path(file: str, folder: str, expected: str) -> None:
    assert labels.path(file, folder) == expected


def test_what_is_typed_has_no_line() -> None:
    assert labels.place(Location("<command line>", 1, key="--workers"), FOLDER) == "command line"


TORCH = "torch.set_num_threads"


@pytest.mark.parametrize(
    ("spelling", "at", "expected"),
    [
        ("num_workers", Location("a.py", 1), "num_workers: 2 -> 4"),
        ("", None, "train.num_threads: 2 -> 4"),
        ("workers=4", None, "workers=4"),
        (TORCH, Location("a.py", 3, span=Span(9, 9)), "torch.set_num_threads(4)"),
        (TORCH, Location("a.py", 3, key="x", span=Span(9, 10)), "torch.set_num_threads(4), now 2"),
        (TORCH, None, "torch.set_num_threads(4), now 2"),
    ],
)
def test_a_change_is_said_as_a_person_writes_it(spelling: str, at: Location | None, expected: str) -> None:
    change = SettingChange("train.num_threads", 2, 4, Effect.EQUIVALENT, at, spelling)
    assert labels.edit(change, at.file if at is not None else "") == expected
