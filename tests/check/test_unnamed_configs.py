"""Configs of DeepSpeed and accelerate that no file of the project names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.model.checked import ASIDE
from tests.check.test_check_check import check

TRAINS = "import torch\nfor x in loader:\n    loss = model(x.cuda())\n    loss.backward()\n    optimizer.step()\n"
OFFLOADS = json.dumps({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})
ACCELERATE = "distributed_type: FSDP\nfsdp_config:\n  fsdp_offload_params: true\n"


def said(root: Path, files: dict[str, str]) -> tuple[set[str], set[str]]:
    """The files of which something is said, and those that are set aside, beside `train.py` that `run.sh` starts."""
    for name, text in {"train.py": TRAINS, "run.sh": "python train.py\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    checked = check(root, with_minor=False)
    shown = {one.location.file for one in checked.findings if one.location}
    aside = (one.finding.location for each in checked.bundles for one in each.silenced if one.by == ASIDE)
    return shown, {one.file for one in aside if one}


@pytest.mark.parametrize(
    ("config", "text", "files", "is_said"),
    [
        ("ds.json", OFFLOADS, {}, False),
        ("ds.json", OFFLOADS, {"run.sh": "echo nothing is started"}, True),
        ("ds.json", OFFLOADS, {"README.md": "deepspeed train.py --deepspeed ds.json"}, True),
        ("ds.json", OFFLOADS, {"README.md": "├── ds.json  of old"}, False),
        ("ds.json", OFFLOADS, {"README.md": "not ads.json"}, False),
        ("ds.json", OFFLOADS, {".github/workflows/ci.yml": "run: train ds.json"}, True),
        ("ds.json", OFFLOADS, {"other.py": "CONFIG = 'ds.json'"}, True),
        ("configs/ds.json", OFFLOADS, {"a.sh": "deepspeed train.py --deepspeed configs/$NAME"}, True),
        ("configs/ds.json", OFFLOADS, {"a.sh": "for one in configs/*; do echo $one; done"}, True),
        ("ds.json", OFFLOADS, {"a.sh": "deepspeed train.py \\\n  --deepspeed $CONFIG"}, True),
        ("ds.json", OFFLOADS, {"README.md": "deepspeed train.py --deepspeed <config>"}, True),
        ("ds.json", OFFLOADS, {"a.sh": "CONFIG=other.json\ndeepspeed train.py --deepspeed $CONFIG"}, False),
        ("ds.json", OFFLOADS, {"a.sh": 'deepspeed train.py "$@"'}, True),
        ("ds.json", OFFLOADS, {"a.sh": 'deepspeed train.py --epochs "$1"'}, False),
        ("configs/ds.json", OFFLOADS, {"a.sh": "train configs/$NAME.yaml"}, False),
        ("ds.json", OFFLOADS, {"a.sh": "accelerate launch --config_file $CONFIG train.py"}, False),
        ("acc.yaml", ACCELERATE, {}, False),
        ("acc.yaml", ACCELERATE, {"a.sh": "accelerate launch --config_file $CONFIG train.py"}, True),
        ("acc.yaml", ACCELERATE, {"a.sh": "accelerate launch --config_file acc.yaml train.py"}, True),
    ],
)
def test_a_config_that_nothing_names(
    tmp_path: Path, config: str, text: str, files: dict[str, str], is_said: bool
) -> None:
    shown, aside = said(tmp_path, {config: text, **files})
    assert (config in shown, config in aside) == (is_said, not is_said)


def test_what_the_user_names_is_said(tmp_path: Path) -> None:
    said(tmp_path, {"ds.json": OFFLOADS})
    assert any(one.location and one.location.file == "ds.json" for one in check(tmp_path / "ds.json").findings)


def test_a_long_line_takes_no_time(tmp_path: Path) -> None:
    line = '{"python run in":[' * 50_000
    assert "ds.json" in said(tmp_path, {"ds.json": OFFLOADS, "notes.txt": line, "data.json": line})[1]
