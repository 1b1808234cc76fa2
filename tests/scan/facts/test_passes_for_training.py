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

METHODS = """
class Trainer:
    def embed(self):
        self.net.eval()
        with torch.no_grad():
            z = self.net(images)
        self.net.train()
        return z

    def train_epoch(self, loader, best):
        for x in loader:
            loss = self.net(x).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def run(self):
        for epoch in range(9):
            found = self.embed()
            BODY


Trainer().run()
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
    "a queue and a scale that the step itself keeps": (
        False,
        "for epoch in range(9):\n"
        + STEP.replace("criterion(out, y)", "clip(out, queue) * net.logit_scale")
        + "        with torch.no_grad():\n            net.logit_scale.clamp_(0, 4.6)\n            queue[i:j] = out\n"
        + "    net.eval()\n    with torch.no_grad():\n        hits = sum(net(x).argmax(1) for x in val_loader)\n"
        + "    net.train()\n    print(hits)\n",
    ),
    "a bank and a validation in the same lines": (
        False,
        "for epoch in range(9):\n    net.eval()\n    with torch.no_grad():\n        bank = net(images)\n"
        + "    net.train()\n"
        + STEP.replace("criterion(out, y)", "nce(out, bank)")
        + "    net.eval()\n    with torch.no_grad():\n        hits = net(held_out).argmax(1)\n    print(hits)\n",
    ),
    "a loader inside of the evaluation": (
        False,
        "def check(net):\n    net.eval()\n    with torch.no_grad():\n        subset = Subset(val, ids)\n"
        + "        loader = DataLoader(subset, 64)\n        for x, y in loader:\n            total = net(x)\n"
        + "    print(total)\n"
        + "for epoch in range(9):\n"
        + STEP
        + "    check(net)\n",
    ),
    "the best so far beside settings": (
        False,
        VALIDATE
        + "for epoch in range(9):\n"
        + STEP.replace("criterion(out, y)", "criterion(out, y) * args.alpha * cfg['beta']")
        + "    args.best = validate(net)\n    cfg['best'] = args.best\n",
    ),
    "settings that a function gets": (
        False,
        VALIDATE
        + "def fit(net, loader, options):\n"
        + STEP.replace("criterion(out, y)", "criterion(out, y) * options.alpha")
        + "for epoch in range(9):\n    args.best = validate(net)\n    fit(net, loader, args)\n",
    ),
    "a progress bar and a sampler": (
        False,
        VALIDATE
        + "for epoch in range(9):\n    loader.sampler.set_epoch(epoch)\n    pbar = tqdm(loader)\n"
        + STEP.replace("in loader", "in pbar")
        + "    hits = validate(net)\n    pbar.set_postfix(hits=hits)\n    net.eval()\n    net(images)\n"
        + "    loader.sampler.set_epoch(epoch)\n",
    ),
    "methods: a best score is no data": (False, METHODS.replace("BODY", "self.train_epoch(self.loader, found)")),
    "methods: labels": (True, METHODS.replace("BODY", "self.train_epoch(found, 1)")),
    "methods: a bank of the object": (
        True,
        METHODS.replace("BODY", "self.bank = found").replace("self.net(x)", "self.net(x) @ self.bank"),
    ),
    "a frozen teacher is no pass": (
        True,
        "teacher = Net()\nteacher.eval()\n"
        + EMBED
        + "for epoch in range(9):\n    bank = embed(net)\n"
        + STEP.replace("criterion(out, y)", "nce(out, bank, teacher(x))"),
    ),
    "a model without a name": (None, "unwrap(net).eval()\n" + EMBED + "for epoch in range(9):\n" + STEP),
    "another file may evaluate": (
        None,
        "from helpers import validate\n"
        + EMBED
        + "for epoch in range(9):\n    bank = embed(net)\n"
        + STEP.replace("criterion(out, y)", "nce(out, bank)")
        + "    validate(net)\n",
    ),
    "an annotation that calls": (
        True,
        EMBED
        + "for epoch in range(9):\n    bank: Annotated[Tensor, Check(bank)] = embed(net)\n"
        + STEP.replace("criterion(out, y)", "nce(out, bank)"),
    ),
    "no pass": (None, "for epoch in range(9):\n" + STEP),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_pass_in_evaluation_mode_is_for(name: str) -> None:
    expected, body = CASES[name]
    assert facts(scan(HEAD + textwrap.dedent(body))).get("code.evaluation_feeds_training") is expected
