"""Scripts that torch.distributed.launch starts, and the options that they take."""

from __future__ import annotations

import pytest

from autotune.scan import scan

TRAIN = """
import argparse
import torch

parser = argparse.ArgumentParser()
{option}
parser.add_argument("--lr", type=float, default=0.1)
{parse}
model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for x in torch.utils.data.DataLoader(range(9)):
    model(x).mean().backward()
    optimizer.step()
"""
OPTION = 'parser.add_argument("--local_rank", type=int, default=0)'
PARSE = "args = parser.parse_args()"
COMMAND = "python -m torch.distributed.launch --nproc_per_node=8 train.py --lr 0.1"


@pytest.fixture
def refuses(tmp_path):
    """refuses(option, parse, command, **files): the places of the fact."""

    def of(option=OPTION, parse=PARSE, command=COMMAND, **files):
        (tmp_path / "train.py").write_text(TRAIN.format(option=option, parse=parse), encoding="utf-8")
        (tmp_path / "train.sh").write_text(f"#!/bin/bash\n{command}\n", encoding="utf-8")
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text, encoding="utf-8")
        facts = [one for each in scan([tmp_path], root=tmp_path).bundles for one in each.facts]
        return [
            (place.file, place.line)
            for one in facts
            if one.name == "job.passes_unknown_local_rank" and one.value
            for place in one.places
        ]

    return of


@pytest.mark.parametrize(
    "command",
    [COMMAND, "torchrun_args=1\nOMP_NUM_THREADS=4 python3 -m torch.distributed.launch train.py"],
    ids=["several processes", "one"],
)
def test_the_old_spelling_alone_is_refused(refuses, command):
    assert refuses(command=command) == [("train.py", 6)]


@pytest.mark.parametrize(
    "case",
    [
        {"option": 'parser.add_argument("--local_rank", "--local-rank", type=int)'},
        {"option": 'parser.add_argument("--local-rank", type=int)'},
        {"option": ""},
        {"parse": "args, _ = parser.parse_known_args()"},
        {"command": "torchrun --nproc_per_node=8 train.py"},
        {"command": "python -m torch.distributed.run --nproc_per_node=8 train.py"},
        {"command": "python -m torch.distributed.launch --use_env --nproc_per_node=8 train.py"},
        {"command": "python -m torch.distributed.launch --use-env --nproc_per_node=8 train.py"},
        {"command": "python train.py --note torch.distributed.launch"},
        {"requirements_txt": "torch==1.13.1\n"},
        {"requirements_txt": "torch>=1.8,<2.0\n"},
    ],
    ids=["both", "the new one", "none", "unknown ones pass", "torchrun", "run", "use_env", "use-env", "a word",
         "pinned", "bounded"],
)  # fmt: skip
def test_what_starts(refuses, case):
    assert refuses(**case) == []


@pytest.mark.parametrize("requirement", ["torch==2.1.0", "torch>=1.8", "numpy==1.22"])
def test_a_release_that_may_be_new(refuses, requirement):
    assert refuses(requirements_txt=f"{requirement}\n") == [("train.py", 6)]
