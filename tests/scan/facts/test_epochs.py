"""How many epochs a loop of the script's own counts."""

from __future__ import annotations

import textwrap

import pytest
from scanning import facts, scan

TRAIN = """
    import argparse
    import torch
    from torch.utils.data import DataLoader

    EPOCHS = 4
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(dataset, batch_size=8)
    for epoch in {epochs}:
        for x, y in loader:
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            {step}
        {epoch}
"""

IN_FUNCTIONS = """
    import torch
    from torch.utils.data import DataLoader

    def train_one_epoch(model, loader, optimizer):
        for x, y in loader:
            loss = model(x).sum()
            loss.backward()
            optimizer.step()

    def main():
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(5):
            train_one_epoch(model, DataLoader(dataset), optimizer)

    main()
"""


def counted(epochs: str, flags=None, *, step: str = "pass", epoch: str = "pass") -> object:
    code = textwrap.dedent(TRAIN).format(epochs=epochs, step=step, epoch=epoch)
    return facts(scan(code, {} if flags is None else flags)).get("code.num_epochs")


@pytest.mark.parametrize(
    ("epochs", "flags", "expected"),
    [
        ("range(2)", None, 2),
        ("range(EPOCHS)", None, 4),
        ("range(1, EPOCHS + 1)", None, 4),
        ("range(args.epochs)", None, 3),
        ("range(args.epochs)", {"epochs": "7"}, 7),
        ("range(start, 10)", None, None),
        ("range(0, 10, 2)", None, None),
        ("itertools.count()", None, None),
        ("range(0)", None, None),
    ],
)
def test_what_the_loop_counts(epochs: str, flags, expected: int | None) -> None:
    assert counted(epochs, flags) == expected


@pytest.mark.parametrize(
    "early",
    [
        {"step": "if done: break"},
        {"epoch": "if patience == 0: break"},
        {"step": "if step == 10: sys.exit()"},
    ],
)
def test_a_loop_that_may_end_early_counts_nothing(early: dict[str, str]) -> None:
    assert counted("range(2)", **early) is None


def test_the_epoch_in_a_function_of_its_own() -> None:
    assert facts(scan(IN_FUNCTIONS, {})).get("code.num_epochs") == 5


def test_a_command_line_that_is_not_known_may_say_another_number() -> None:
    code = textwrap.dedent(TRAIN).format(epochs="range(args.epochs)", step="pass", epoch="pass")
    assert facts(scan(code)).get("code.num_epochs") is None
