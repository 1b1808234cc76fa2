"""What nothing of a project uses: configs that are named nowhere, scripts that cannot start; and twins in use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.check import check
from autotune.check.unused import MAX_BYTES, why_unused
from autotune.model.evidence import RUN, Fact
from autotune.model.scanned import Bundle

ZERO2 = "configs/zero2.json"
RUN_SH = {"run.sh": "accelerate launch --config_file configs/zero3.json train.py\n"}
UNUSED = "no file of the project names it"


def bundle(name: str, *others: str, dialect: str = "deepspeed", lacks: str = "") -> Bundle:
    facts = (Fact("code.lacks_module", RUN, lacks, ()),) if lacks else ()
    return Bundle(name, (name, *others), (dialect,), facts, ())


def reason(root: Path, files: dict[str, str], *bundles: Bundle) -> str:
    """What is said of the first bundle in a project with these files."""
    for name, text in ({one.name: "{}" for one in bundles} | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return why_unused(root, bundles)(bundles[0])


@pytest.mark.parametrize("dialect", ["deepspeed", "accelerate_config", "hf_trainer", "trl"])
def test_a_config_that_nothing_names(tmp_path: Path, dialect: str) -> None:
    assert reason(tmp_path, RUN_SH, bundle(ZERO2, dialect=dialect)) == UNUSED


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": "\u251c\u2500\u2500 zero2.json"},  # a tree of folders
        {"configs/other.yaml": "lr: 1  # as in zero2.json"},
        {".git/zero.md": "zero2.json"},
        {"run.sh": "accelerate launch --config_file configs/$NAME.yaml train.py\n"},
        {"run.sh": "CONFIG=configs/zero3.json\naccelerate launch --config_file $CONFIG train.py\n"},
        {"recipe/configs/zero2.json": "{}", "recipe/run.sh": "deepspeed train.py --deepspeed configs/zero2.json\n"},
        {"recipe/train.py": "Arguments(deepspeed='zero2.json')"},  # of a folder beside, and that file is not there
        {"recipe/note.ipynb": json.dumps({"cells": [{"source": ["1"], "outputs": ["'/home/configs'"]}]})},
        {"data.json": "x" * (MAX_BYTES + 1)},
        {"train.py": 'parser.add_argument("--deepspeed_config", type=str)\nparser.add_argument("--config", default=1)'},
    ],
)
def test_what_does_not_name_a_config(tmp_path: Path, files: dict[str, str]) -> None:
    assert reason(tmp_path, RUN_SH | files, bundle(ZERO2)) == UNUSED


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": "deepspeed train.py --deepspeed configs/zero2.json"},
        {"README.md": "Take `zero2.json` on small cards"},
        {"Makefile": "train:\n\tpython train.py --deepspeed ./configs/zero2.json"},
        {"more.sh": "# deepspeed train.py --deepspeed /srv/old/configs/zero2.json"},
        {"accelerate.yaml": "deepspeed_config_file: configs/zero2.json"},
        {"src/train.py": "os.path.join(ROOT, 'zero2.json')"},
        {"src/train.py": "(Path('configs') / name)"},
        {"src/train.py": "open(f'configs/{name}.json')"},
        {"more.sh": "python train.py --deepspeed configs/$STAGE.json"},
        {"more.sh": "python train.py --deepspeed configs/zero<stage>.json"},
        {"more.sh": "python train.py --deepspeed $1"},
        {"more.sh": "CONFIG=$2\npython train.py --deepspeed $CONFIG"},
        {"start.py": 'run(["accelerate", "launch", "--config_file", chosen, "train.py"])'},
        {"README.md": "accelerate launch --config_file <your config> train.py"},
        {"recipe/note.ipynb": json.dumps({"cells": [{"source": ["os.listdir('configs')"]}]})},
        {"big.py": "x" * (MAX_BYTES + 1)},
    ],
)
def test_what_may_name_a_config(tmp_path: Path, files: dict[str, str]) -> None:
    assert reason(tmp_path, RUN_SH | files, bundle(ZERO2)) == ""


def test_a_project_that_states_no_command_keeps_its_configs(tmp_path: Path) -> None:
    files = {"README.md": "pip install it; python setup.py install", "train.py": "# python train.py --lr 1"}
    assert reason(tmp_path, files, bundle(ZERO2)) == ""


@pytest.mark.parametrize("other", [bundle(ZERO2, dialect="axolotl"), bundle("train.py", ZERO2)])
def test_other_configs_train_by_themselves(tmp_path: Path, other: Bundle) -> None:
    assert reason(tmp_path, RUN_SH, other) == ""


def test_configs_that_name_one_another_are_unused_together(tmp_path: Path) -> None:
    files = RUN_SH | {"configs/acc.yaml": "deepspeed_config_file: zero2.json"}
    assert reason(tmp_path, files, bundle("configs/acc.yaml", ZERO2)) == UNUSED


DEAD = bundle("old/train_dropout.py", dialect="torch", lacks="nets.dropout")


@pytest.mark.parametrize(
    ("files", "is_unused"),
    [
        (RUN_SH, True),
        (RUN_SH | {"old/readme.txt": "train_dropout is the best"}, False),
        (RUN_SH | {"more.sh": "python -m old.train_dropout"}, False),
        ({"README.md": "nothing is started here"}, False),
    ],
)
def test_a_script_that_cannot_start(tmp_path: Path, files: dict[str, str], is_unused: bool) -> None:
    why = "it imports nets.dropout, which is not there, and nothing starts it" if is_unused else ""
    assert reason(tmp_path, files, DEAD) == why


def test_a_script_that_can_start_is_kept(tmp_path: Path) -> None:
    assert reason(tmp_path, RUN_SH, bundle("old/train_dropout.py", dialect="torch")) == ""


TRAIN = """import torch
from nets.{} import Net

model = Net()
for x in loader:
    loss = model(x.cuda())
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
"""


def reported(root: Path, *, with_minor: bool = False) -> set[tuple[str, str]]:
    options = check.CheckOptions((root,), with_minor=with_minor)
    return {(one.rule.id, one.location.file) for one in check.check(options, cwd=root).findings if one.location}


def test_check_leaves_out_what_nothing_uses(tmp_path: Path) -> None:
    offloads = json.dumps({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})
    files = {
        "nets/__init__.py": "",
        "nets/plain.py": "class Net: ...\n",
        "train.py": TRAIN.format("plain"),
        "lost.py": TRAIN.format("forgotten"),
        "dead.py": TRAIN.format("dropout"),
        "configs/ds2.json": offloads,
        "configs/ds3.json": offloads,
        "run.sh": "deepspeed train.py --deepspeed configs/ds3.json\npython lost.py\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found, everything = reported(tmp_path), reported(tmp_path, with_minor=True)
    assert found >= {("SY004", "train.py"), ("SY004", "lost.py"), ("EN017", "lost.py"), ("ME006", "configs/ds3.json")}
    assert not {file for _, file in found} & {"dead.py", "configs/ds2.json"}
    assert everything >= {("SY004", "dead.py"), ("EN017", "dead.py"), ("ME006", "configs/ds2.json")}
