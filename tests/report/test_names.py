from __future__ import annotations

import pytest
from report_builders import gain_from, rule

from autotune.model.report import PHASES
from autotune.model.rule import GainSpec
from autotune.report import names

FOLDER = "/home/user/project/.autotune/runs/1"


def test_every_phase_has_a_name() -> None:
    assert tuple(names.PHASES) == PHASES


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, set()),
        (gain_from("step.recompute_share"), {"recompute"}),
        (gain_from("step.forward_ms / step.mean_ms"), {"forward"}),
        (gain_from("loader.wait_share"), {"data_wait"}),
        (gain_from("loader.input_share"), {"data_wait"}),
        (gain_from("calls.gc_share + calls.empty_cache_share"), {"other"}),
        (gain_from("step.compute_share"), set()),
        (GainSpec("measured_ceiling", {}), {"data_wait"}),
        (GainSpec("batch_curve", {"factor": "2"}), set()),
    ],
)
def test_phases_follow_from_the_gain(spec: GainSpec | None, expected: set[str]) -> None:
    assert names.phases(rule(gain=spec)) == expected


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
    assert names.path(file, folder) == expected
