"""Whether training uses what a pass in evaluation mode returns."""

from __future__ import annotations

import textwrap

import pytest
from scanning import facts, scan

HEAD = """
import torch
from torch.utils.data import DataLoader, TensorDataset
"""

EMBED = """
@torch.no_grad()
def embed(net):
    net.eval()
    z = torch.cat([net(x) for x in images.split(64)])
    net.train()
    return z
"""

VALIDATE = """
def validate(net):
    net.eval()
    hits = 0
    with torch.no_grad():
        for x, y in val_loader:
            out = net(x)
            hits += (out.argmax(1) == y).sum().item()
    return hits
"""

STEP = """
    for x, y in loader:
        out = net(x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

CASES = {
    "clusters become labels": (
        True,
        EMBED
        + "for epoch in range(9):\n    label = kmeans(embed(net), 8)\n"
        + "    loader = DataLoader(TensorDataset(images, label), 64)\n"
        + STEP,
    ),
    "a bank that the loss reads": (
        True,
        EMBED + "for epoch in range(9):\n    bank = embed(net)\n" + STEP.replace("criterion(out, y)", "nce(out, bank)"),
    ),
    "written into the dataset": (
        True,
        EMBED
        + "data = Scans()\nloader = DataLoader(data, 64)\nfor epoch in range(9):\n    data.soft[:] = embed(net)\n"
        + STEP,
    ),
    "passed on to the function that trains": (
        True,
        EMBED
        + "def fit(net, loader, teacher):\n"
        + STEP.replace("criterion(out, y)", "criterion(out, teacher[y])")
        + "for epoch in range(9):\n    targets = embed(net)\n    fit(net, loader, targets)\n",
    ),
    "made in the loop itself": (
        True,
        "for epoch in range(9):\n    net.eval()\n    found = []\n    with torch.no_grad():\n"
        "        for x in unlabelled:\n            found.append(net(x).argmax(1))\n    net.train()\n"
        "    loader = DataLoader(TensorDataset(images, torch.cat(found)), 64)\n" + STEP,
    ),
    "an accuracy": (
        False,
        VALIDATE + "for epoch in range(9):\n" + STEP + "    best = validate(net)\n    scheduler.step(best)\n",
    ),
    "the names of the step again": (
        False,
        "for epoch in range(9):\n"
        + STEP
        + "    net.eval()\n    with torch.no_grad():\n        for x, y in val_loader:\n"
        + "            out = net(x)\n            loss = criterion(out, y)\n    net.train()\n",
    ),
    "a second pass that measures": (
        False,
        EMBED
        + VALIDATE
        + "for epoch in range(9):\n    bank = embed(net)\n"
        + STEP.replace("criterion(out, y)", "nce(out, bank)")
        + "    print(validate(net))\n",
    ),
    "printed by what prepares the data": (
        False,
        "accelerator = Accelerator()\nnet, loader = accelerator.prepare(net, DataLoader(data, 64))\n"
        + VALIDATE
        + "for epoch in range(9):\n"
        + STEP.replace("loss.backward()", "accelerator.backward(loss)")
        + "    hits = validate(net)\n    accelerator.print(hits)\n",
    ),
    "the model itself": (
        False,
        VALIDATE + "for epoch in range(9):\n" + STEP + "    net.best = validate(net)\n",
    ),
    "no pass": (None, "for epoch in range(9):\n" + STEP),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_pass_in_evaluation_mode_is_for(name: str) -> None:
    expected, body = CASES[name]
    assert facts(scan(HEAD + textwrap.dedent(body))).get("code.evaluation_feeds_training") is expected
