"""Scripts and configs that nothing in the project starts or names."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from autotune.model.checked import ASIDE
from tests.check.test_check_check import check

TRAINS = textwrap.dedent("""
    import torch
    from torchvision.models import resnet50

    model = torch.nn.DataParallel(resnet50().cuda())
    for x in loader:
        loss = model(x.cuda())
        loss.backward()
        optimizer.step()
""")
OFFLOADS = json.dumps({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})
ACCELERATE = "distributed_type: FSDP\nfsdp_config:\n  fsdp_offload_params: true\n"


def said(root: Path, files: dict[str, str]) -> tuple[set[str], set[str]]:
    """The files of which something is said, and those that are set aside, with `train.py` that `run.sh` starts."""
    for name, text in {"train.py": TRAINS, "run.sh": "python train.py\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    checked = check(root, with_minor=False)
    shown = {one.location.file for one in checked.findings if one.location}
    aside = (one.finding.location for each in checked.bundles for one in each.silenced if one.by == ASIDE)
    return shown, {one.file for one in aside if one}


@pytest.mark.parametrize(
    ("files", "is_said"),
    [
        ({}, False),
        ({"README.md": "Run `python old.py`."}, True),
        ({"README.md": "Run `python -m parts.old`."}, True),
        ({"README.md": "├── old.py  the first try"}, False),
        ({"README.md": "what is very old is gone"}, False),
        ({"Makefile": "train:\n\tpython old.py"}, True),
        ({".github/workflows/ci.yml": "run: python old.py"}, True),
        ({"other.py": "import subprocess\nsubprocess.run(['python', 'old.py'])"}, True),
        ({"other.py": "from parts import old"}, True),
        ({"setup.cfg": "train = parts.old:main"}, True),
        ({"old.py": f'"""python old.py --epochs 3"""\n{TRAINS}'}, True),
        ({"all.sh": "for one in *.py; do python $one; done"}, True),
        ({"all.sh": 'python "$1"'}, True),
        ({"all.sh": "SCRIPT=train.py\npython $SCRIPT"}, False),
        ({"all.sh": "torchrun --nproc_per_node 2 ${NAME}.py"}, True),
        ({"run.sh": "echo nothing is started"}, True),
        ({"all.sh": "python train.py --lr $LR"}, False),
    ],
)
def test_a_script_that_nothing_starts(tmp_path: Path, files: dict[str, str], is_said: bool) -> None:
    shown, aside = said(tmp_path, {"old.py": TRAINS, **files})
    assert ("old.py" in shown, "old.py" in aside) == (is_said, not is_said)
    assert "train.py" in shown


@pytest.mark.parametrize(
    ("config", "text", "files", "is_said"),
    [
        ("ds.json", OFFLOADS, {}, False),
        ("ds.json", OFFLOADS, {"README.md": "deepspeed train.py --deepspeed ds.json"}, True),
        ("configs/ds.json", OFFLOADS, {"a.sh": "deepspeed train.py --deepspeed configs/$NAME"}, True),
        ("ds.json", OFFLOADS, {"a.sh": "deepspeed train.py --deepspeed $CONFIG"}, True),
        ("ds.json", OFFLOADS, {"a.sh": "CONFIG=other.json\ndeepspeed train.py --deepspeed $CONFIG"}, False),
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


def test_a_module_of_a_script_that_is_started(tmp_path: Path) -> None:
    makes = "import torch\ndef make(model):\n    return torch.nn.DataParallel(model.cuda())\n"
    uses = TRAINS.replace("torch.nn.DataParallel(resnet50().cuda())", "make(resnet50())")
    files = {"models/parts.py": makes, "train.py": f"from models.parts import make\n{uses}"}
    assert "models/parts.py" in said(tmp_path, {**files, "old.py": files["train.py"]})[0]


def test_what_the_user_names_is_said(tmp_path: Path) -> None:
    said(tmp_path, {"old.py": TRAINS})
    assert any(one.location and one.location.file == "old.py" for one in check(tmp_path / "old.py").findings)


def test_a_long_line_takes_no_time(tmp_path: Path) -> None:
    line = '{"python run in":[' * 50_000
    assert "old.py" in said(tmp_path, {"old.py": TRAINS, "notes.txt": line, "data.json": line})[1]
