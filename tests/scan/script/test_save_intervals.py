"""Every how many steps a raw loop saves and evaluates, and where that number stands."""

from __future__ import annotations

import pytest
from scanning import scan

LOOP = """
import argparse
import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--save-every", type=int, default=20)
args = parser.parse_args()
EVAL = 50
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def save(step):
    torch.save(model.state_dict(), f"{step}.pt")


def evaluate():
    model.eval()
    model.train()


for step, batch in enumerate(DataLoader([1.0])):
    model(batch).sum().backward()
    optimizer.step()
"""


def intervals(body: str) -> dict[str, tuple[object, int, str]]:
    """By the name of the call: the value, its line and its key."""
    found = scan(LOOP + body).calls
    rows = [(call.name, given) for call in found if call.name.endswith(" loop") for given in call.arguments.values()]
    return {name: (given.value, given.location.line, given.location.key) for name, given in rows}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("    if step % args.save_every == 0:\n        save(step)\n", {"save loop": (20, 7, "--save-every")}),
        ("    if (step + 1) % EVAL == 0:\n        evaluate()\n", {"evaluation loop": (50, 9, "EVAL")}),
        ("    if step % 8 == 0:\n        torch.save(model, 'x')\n", {"save loop": (8, 26, "save_every")}),
        ("    if step and not step % EVAL:\n        model.save_pretrained('x')\n", {"save loop": (50, 9, "EVAL")}),
        ("    if step % EVAL == 0:\n        print(step)\n", {}),
        ("    if step % 8 == 0:\n        print(step)\n        if step > late:\n            save(step)\n", {}),
        ("    if step % 8 == 0:\n        print(step)\n    else:\n        save(step)\n", {}),
        ("    if step % EVAL == 0:\n        optimizer.step()\n        save(step)\n", {}),
        ("    if step % 8 == 0:\n        save(step)\n    if step % 9 == 0:\n        save(step)\n", {}),
        ("if EVAL % 8 == 0:\n    save(1)\n", {}),
    ],
)
def test_a_condition_of_the_loop_that_saves_or_evaluates(body: str, expected: dict[str, object]) -> None:
    assert intervals(body) == expected
