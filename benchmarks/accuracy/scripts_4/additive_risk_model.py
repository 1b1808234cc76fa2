"""Neural additive model for readmission risk: one small network per clinical variable, summed into a logit.

The per-variable curves are what the clinicians look at, so the subnetworks are kept separate modules.
"""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn


class Curve(nn.Module):
    """The contribution of one variable."""

    def __init__(self, hidden: int, dropout: float):
        super().__init__()
        self.inp = nn.Linear(1, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1, bias=False)
        self.dropout = dropout

    def forward(self, column):
        h = torch.relu(self.inp(column))
        h = torch.relu(self.mid(h))
        return self.out(h)


class AdditiveModel(nn.Module):
    def __init__(self, variables: int, hidden: int, dropout: float):
        super().__init__()
        self.curves = nn.ModuleList(Curve(hidden, dropout) for _ in range(variables))
        self.bias = nn.Parameter(torch.zeros(1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, table):
        parts = [curve(column) for curve, column in zip(self.curves, table.split(1, dim=1), strict=True)]
        return self.dropout(torch.cat(parts, dim=1)).sum(dim=1) + self.bias


def make_cohort(patients: int, variables: int):
    table = torch.randn(patients, variables)
    shapes = torch.sin(table * torch.linspace(0.5, 3, variables)) * torch.linspace(-1, 1, variables)
    risk = torch.sigmoid(shapes.sum(dim=1) - 1)
    return table, torch.bernoulli(risk)


def optimizer_settings(args):
    settings = {"lr": args.lr, "betas": (0.9, 0.98), "weight_decay": args.weight_decay}
    settings["foreach"] = False  # parity with the numbers of the 2021 runs
    return settings


def train(args):
    set_seed(args.seed)
    accelerator = Accelerator(cpu=True)
    table, outcome = make_cohort(args.patients, args.variables)
    model = AdditiveModel(args.variables, args.hidden, args.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), **optimizer_settings(args))
    model, optimizer = accelerator.prepare(model, optimizer)
    criterion = nn.BCEWithLogitsLoss()

    model.train()
    step = 0
    for epoch in range(args.epochs):
        running = torch.zeros(())
        for rows in torch.randperm(len(table)).split(args.batch):
            loss = criterion(model(table[rows]), outcome[rows])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            running += loss.detach()
            step += 1
        accelerator.print(f"epoch {epoch}: {running.item() / max(1, len(table) // args.batch):.4f} after {step} steps")
    accelerator.save(accelerator.unwrap_model(model).state_dict(), "additive.pt")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--patients", type=int, default=60_000)
    parser.add_argument("--variables", type=int, default=72)
    parser.add_argument("--hidden", type=int, default=24)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    train(parse())
