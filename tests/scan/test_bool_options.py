"""Options with `type=bool`, and commands that mean to switch them off."""

from __future__ import annotations

import pytest

from autotune.scan import scan

TRAIN = """
{imports}
import torch

parser = {parser}
{option}
parser.add_argument("--lr", type=float, default=0.1)
{then}
args = parser.parse_args()
{after}
model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for x in torch.utils.data.DataLoader(range(9)):
    model(x).mean().backward()
    optimizer.step()
"""
OPTION = 'parser.add_argument("--tuned", type=bool, default=True)'


@pytest.fixture
def made_true(tmp_path):
    """made_true(**parts): the value of the fact, and its places, for such a script and command."""

    def of(option=OPTION, command="python train.py --lr 0.1 --tuned False", **parts):
        parts = {"imports": "import argparse", "parser": "argparse.ArgumentParser()", "then": "", "after": ""} | parts
        (tmp_path / "train.py").write_text(TRAIN.format(option=option, **parts), encoding="utf-8")
        (tmp_path / "train.sh").write_text(f"#!/bin/bash\n{command}\n", encoding="utf-8")
        facts = [one for each in scan([tmp_path], root=tmp_path).bundles for one in each.facts]
        return [
            (one.value, [(place.file, place.line) for place in one.places])
            for one in facts
            if one.name == "job.false_made_true"
        ]

    return of


@pytest.mark.parametrize("word", ["False", "false", "0", "no", "off"])
def test_a_word_that_means_no(made_true, word):
    found = made_true(command=f"python train.py --tuned {word}")
    assert found == [(f"--tuned {word}", [("train.py", 6), ("train.sh", 2)])]


def test_beside_a_sign(made_true):
    assert made_true(command="torchrun train.py --tuned=False")[0][0] == "--tuned False"


def test_several_options(made_true):
    option = f'{OPTION}\nparser.add_argument("-q", "--quiet-run", type=bool)'
    found = made_true(option=option, command="python train.py --tuned False --quiet-run=0")
    assert found[0] == (
        "--tuned False, --quiet-run 0",
        [("train.py", 6), ("train.py", 7), ("train.sh", 2), ("train.sh", 2)],
    )


@pytest.mark.parametrize(
    "case",
    [
        {"command": "python train.py --tuned True"},
        {"command": "python train.py --tuned ''"},
        {"command": "python train.py --lr 0.1"},
        {"command": "python train.py --tuned $TUNED"},
        {"command": "python train.py tuned=False"},
        {"option": 'parser.add_argument("--tuned", type=lambda one: one == "True")'},
        {"option": 'parser.add_argument("--tuned", type=str)'},
        {"option": 'parser.add_argument("--tuned", action="store_true")'},
        {"option": f"bool = lambda one: one == 'True'\n{OPTION}"},
        {"option": f'{OPTION}\nother = argparse.ArgumentParser()\nother.add_argument("--tuned", type=str)'},
        {"then": 'parser.register("type", bool, lambda one: one == "True")'},
        {"imports": "import jsonargparse", "parser": "jsonargparse.ArgumentParser()"},
        {"after": "args.tuned = False"},
    ],
    ids=["switched on", "no word", "not given", "a variable", "no flag", "own type", "a text", "a switch", "own bool",
         "two parsers", "registered", "jsonargparse", "set again"],
)  # fmt: skip
def test_what_nothing_is_said_of(made_true, case):
    assert made_true(**case) == []
