"""Defaults of a project's yacs config, and the YAML files over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.model.scanned import Bundle
from autotune.scan import scan

DEFAULTS = """\
from yacs.config import CfgNode as CN

_C = CN()
_C.OUTPUT_DIR = "out"
_C.MODEL = CN()
_C.MODEL.NAME = "small"
_C.DATALOADER = CN()
_C.DATALOADER.NUM_WORKERS = 0
_C.SOLVER = CN()
_C.SOLVER.IMS_PER_BATCH = 8 * 8
_C.SOLVER.MAX_EPOCHS = 120
"""

RUN = "MODEL: {NAME: large}\nDATALOADER: {NUM_WORKERS: 4}\nSOLVER: {BASE_LR: 0.01}\nOUTPUT_DIR: b\n"


def bundles(folder: Path, **files: str) -> dict[str, Bundle]:
    for name, text in files.items():
        path = folder / name.replace("_yaml", ".yaml").replace("_py", ".py")
        path.write_text(text, encoding="utf-8")
    return {one.name: one for one in scan([folder], root=folder).bundles}


def given(bundle: Bundle) -> dict[str, object]:
    return {one.name: one.value for one in bundle.settings if one.origin == "static"}


def test_defaults_count_behind_a_file(tmp_path: Path) -> None:
    found = bundles(tmp_path, defaults_py=DEFAULTS, run_yaml=RUN)
    assert set(found) == {"defaults.py", "run.yaml"}
    own = {"train.epochs": 120.0, "train.global_batch": 64}
    assert given(found["defaults.py"]) == own | {"loader.num_workers": 0}
    assert given(found["run.yaml"]) == own | {"loader.num_workers": 4, "train.learning_rate": 0.01}
    assert found["run.yaml"].files == ("run.yaml", "defaults.py")


@pytest.mark.parametrize(
    "line",
    [
        "_C.DATALOADER.NUM_WORKERS = 8",
        "_C.DATALOADER.NUM_WORKERS = count()",
    ],
)
def test_a_default_that_is_set_twice_is_not_known(tmp_path: Path, line: str) -> None:
    found = bundles(tmp_path, defaults_py=f"{DEFAULTS}{line}\n")
    assert "loader.num_workers" not in given(found["defaults.py"])


def test_of_two_configs_nobody_knows_whose_defaults_count(tmp_path: Path) -> None:
    found = bundles(tmp_path, a_py=DEFAULTS, b_py=DEFAULTS, run_yaml=RUN)
    assert found["run.yaml"].files == ("run.yaml",)
    assert given(found["run.yaml"]) == {"loader.num_workers": 4, "train.learning_rate": 0.01}


def test_nothing_is_known_of_keys_that_are_not_there(tmp_path: Path) -> None:
    (bundle,) = bundles(tmp_path, run_yaml=RUN).values()
    assert not [one for one in bundle.settings if one.origin == "default"]
