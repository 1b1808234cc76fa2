"""Dropout of scaled_dot_product_attention, and what switches it off in evaluation."""

from __future__ import annotations

import textwrap

import pytest

from autotune.scan import scan

TRAIN = """
import argparse
import torch
from net import {imported}

parser = argparse.ArgumentParser()
parser.add_argument("--drop", type=float, default=0.2)
args = parser.parse_args()
{before}
net = {made}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(range(9)):
    loss = net(x.cuda()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {inside}
"""

NET = """
import torch
import torch.nn.functional as F
from torch import nn

class {name}({base}):
    def __init__(self, drop=0.1):
        super().__init__()
{init}

    def forward(self, x{parameters}):
{forward}
{methods}

class Net(nn.Module):
    def __init__(self, drop=0.1):
        super().__init__()
        self.part = {name}(drop)

    def forward(self, x):
        return self.part(x)

class Other(nn.Module):
    def forward(self, x):
        return x
"""

CALL = "return F.scaled_dot_product_attention(x, x, x, dropout_p={value})"
COMMAND = "python train.py"


@pytest.fixture
def kept(tmp_path):
    """kept(**parts): the probability, "unknown" where it is not certain, None where nothing is kept; and the places."""

    def of(value="self.drop", command=COMMAND, made="Net(args.drop)", before="", inside="", imported="Net", **parts):
        defaults = {"name": "Part", "base": "nn.Module", "init": "self.drop = drop", "parameters": "", "methods": ""}
        parts = {**defaults, "forward": CALL.format(value=value), **parts}
        parts["init"], parts["forward"] = (textwrap.indent(parts[one], " " * 8) for one in ("init", "forward"))
        parts["methods"] = textwrap.indent(parts["methods"], " " * 4)
        script = TRAIN.format(imported=imported, made=made, before=before, inside=inside)
        (tmp_path / "train.py").write_text(script, encoding="utf-8")
        (tmp_path / "net.py").write_text(NET.format(**parts), encoding="utf-8")
        (tmp_path / "train.sh").write_text(f"#!/bin/bash\n{command}\n", encoding="utf-8")
        bundles = [one for one in scan([tmp_path], root=tmp_path).bundles if "train.py" in one.files]
        facts = {one.name: one for each in bundles for one in each.facts}
        keeps, value = (facts.get(f"code.{one}") for one in ("keeps_attention_dropout", "attention_dropout"))
        return (value.value if value else "unknown" if keeps else None), [
            (place.file, place.line) for place in (value or keeps).places
        ] if keeps else []

    return of


@pytest.mark.parametrize(
    ("case", "value"),
    [
        ({}, 0.2),
        ({"command": "python train.py --drop 0.3"}, 0.3),
        ({"value": "0.5"}, 0.5),
        ({"made": "Net()"}, 0.1),
        ({"made": "Net(drop=0.4)"}, 0.4),
        ({"forward": f"p = self.drop\n{CALL.format(value='p')}"}, 0.2),
        ({"forward": "return F.scaled_dot_product_attention(x, x, x, None, self.drop)"}, 0.2),
        ({"init": "self.drop = nn.Dropout(drop)", "value": "self.drop.p"}, 0.2),
        ({"forward": "return self.mix(x)", "methods": f"def mix(self, x):\n    {CALL.format(value='self.drop')}"}, 0.2),
        ({"command": "python train.py --drop $DROP"}, "unknown"),
        ({"init": "self.drop = load()"}, "unknown"),
    ],
    ids=["the default of a known command", "an option", "a number", "the default of the class", "an argument",
         "a name", "by place", "of a Dropout", "in a method", "a variable", "not followed"],
)  # fmt: skip
def test_what_stays_on(kept, case, value):
    found, places = kept(**case)
    assert found == value
    assert [file for file, _ in places] == ["net.py"]


@pytest.mark.parametrize(
    "case",
    [
        {"value": "self.drop if self.training else 0.0"},
        {"value": "self.drop * self.training"},
        {"forward": f"p = self.drop if self.training else 0.0\n{CALL.format(value='p')}"},
        {"forward": f"p = 0.0\nif self.training:\n    p = self.drop\n{CALL.format(value='p')}"},
        {"forward": f"if not self.training:\n    return x\n{CALL.format(value='self.drop')}"},
        {"parameters": ", is_train=True", "value": "self.drop"},
        {"parameters": ", p=0.1", "value": "p"},
        {"value": "0.0"},
        {"value": "self.rate(x)"},
        {"command": "python train.py --drop 0"},
        {"made": "Net(0.0)"},
        {"forward": "return F.scaled_dot_product_attention(x, x, x)"},
        {"methods": "def eval(self):\n    self.drop = 0.0\n    return super().eval()"},
        {"methods": "def train(self, mode=True):\n    return super().train(mode)"},
        {"methods": "def set(self):\n    self.drop = 0.0"},
        {"methods": "@property\ndef drop(self):\n    return 0.0", "init": "pass"},
        {"inside": "net.part.drop = 0.0"},
        {"base": "object"},
        {"name": "BayesianPart"},
        {"made": "Other()", "imported": "Other"},
        {"init": "self.drop = drop\nself.train()", "value": "self.training * 0.1"},
        {"forward": "return other.scaled_dot_product_attention(x, x, x, dropout_p=0.1)"},
    ],
    ids=["a choice", "a product", "a name", "a branch", "a return", "a parameter of the mode", "a parameter", "zero",
         "worked out", "an option of 0", "an argument of 0", "none", "own eval", "own train", "own setter",
         "a property", "set by others", "no module", "wanted", "not made", "of the mode", "another function"],
)  # fmt: skip
def test_what_nothing_is_said_of(kept, case):
    assert kept(**case) == (None, [])
