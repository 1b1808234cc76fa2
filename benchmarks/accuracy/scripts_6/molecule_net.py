"""Message passing over random molecule-like graphs (dense adjacency), several properties regressed at once."""

import argparse

import torch
from accelerate import Accelerator
from torch import nn

ATOMS = 32
KINDS = 9
BONDS = 3


def make_molecules(count, seed):
    """Atom kinds, one adjacency matrix per bond type, and four properties that depend on the neighbourhoods."""
    rng = torch.Generator().manual_seed(seed)
    kinds = torch.randint(0, KINDS, (count, ATOMS), generator=rng)
    # A chain with a few shortcuts: every atom is bound to the one before it.
    chain = torch.diag(torch.ones(ATOMS - 1), 1)
    shortcuts = (torch.rand(count, ATOMS, ATOMS, generator=rng) < 0.03).float().triu(2)
    upper = (chain + shortcuts).clamp(max=1)
    bond = torch.randint(0, BONDS, (count, ATOMS, ATOMS), generator=rng)
    adjacency = torch.stack([upper * (bond == number) for number in range(BONDS)], dim=1)
    adjacency = adjacency + adjacency.transpose(2, 3)
    weight = torch.linspace(-1, 1, KINDS)[kinds]
    around = torch.einsum("cbij,cj->cbi", adjacency, weight)
    polar = (around[:, 0] * weight).sum(1)
    strain = (around[:, 1].abs() * adjacency[:, 2].sum(2)).sum(1)
    targets = torch.stack([polar, strain, weight.sum(1), adjacency.sum((1, 2, 3))], dim=1)
    return kinds, adjacency, (targets - targets.mean(0)) / targets.std(0)


class Batches:
    """Shuffled batches of tensors that are in memory already."""

    def __init__(self, tensors, size):
        self.tensors, self.size = tensors, size

    def __len__(self):
        return len(self.tensors[0]) // self.size

    def __iter__(self):
        order = torch.randperm(len(self.tensors[0]))
        for number in range(len(self)):
            chosen = order[number * self.size : (number + 1) * self.size]
            yield tuple(tensor[chosen] for tensor in self.tensors)


class Message(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.send = nn.Linear(width, BONDS * width, bias=False)
        self.keep = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, atoms, adjacency):
        sent = self.send(atoms).unflatten(2, (BONDS, -1)).transpose(1, 2)
        received = (adjacency @ sent).sum(1)
        return atoms + torch.relu(self.norm(self.keep(atoms) + received))


class MoleculeNet(nn.Module):
    def __init__(self, width, depth, properties):
        super().__init__()
        self.atoms = nn.Embedding(KINDS, width)
        self.layers = nn.ModuleList(Message(width) for _ in range(depth))
        self.gate = nn.Linear(width, width)
        self.read = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, properties))

    def forward(self, kinds, adjacency):
        atoms = self.atoms(kinds)
        for layer in self.layers:
            atoms = layer(atoms, adjacency)
        return self.read((torch.sigmoid(self.gate(atoms)) * atoms).sum(1) / ATOMS**0.5)


def build_optimizer(model, rate):
    """Weight decay for matrices only."""
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.01},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, foreach=False)


@torch.no_grad()
def errors(model, tensors):
    model.eval()
    kinds, adjacency, targets = tensors
    found = (model(kinds, adjacency) - targets).abs().mean(0)
    model.train()
    return [round(value, 3) for value in found.tolist()]


def run(options):
    torch.manual_seed(options.seed)
    accelerator = Accelerator(cpu=True)
    batches = Batches(make_molecules(options.molecules, seed=1), options.batch)
    held_out = make_molecules(256, seed=2)
    model = MoleculeNet(options.width, options.depth, properties=4)
    optimizer = build_optimizer(model, options.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, options.epochs * len(batches))
    model, optimizer = accelerator.prepare(model, optimizer)
    for epoch in range(options.epochs):
        seen = torch.zeros(())
        for kinds, adjacency, targets in batches:
            loss = nn.functional.smooth_l1_loss(model(kinds, adjacency), targets)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            seen += loss.detach()
        mean = seen.item() / len(batches)
        accelerator.print(f"epoch {epoch}: loss {mean:.4f}, errors {errors(model, held_out)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--molecules", type=int, default=12_800)
    parser.add_argument("--batch", type=int, default=320)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=17)
    run(parser.parse_args())
