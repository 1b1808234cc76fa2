"""Predict a (synthetic) solubility with a small dense message-passing network, no graph library needed."""

import random
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MAX_ATOMS = 40
ATOM_FEATURES = 24


@dataclass
class Molecule:
    atoms: torch.Tensor
    bonds: torch.Tensor
    solubility: float


def random_molecule(rng: random.Random) -> Molecule:
    size = rng.randint(34, MAX_ATOMS)
    tree = [(i, rng.randrange(i)) for i in range(1, size)]
    rings = [(rng.randrange(size), rng.randrange(size)) for _ in range(12)]
    bonds = torch.tensor([pair for a, b in tree + rings for pair in ((a, b), (b, a))])
    atoms = torch.randn(size, ATOM_FEATURES)
    return Molecule(atoms, bonds, float(atoms[:, 0].mean() + 0.1 * len(rings)))


class MoleculeSet(Dataset):
    def __init__(self, count: int, seed: int):
        rng = random.Random(seed)
        self.molecules = [random_molecule(rng) for _ in range(count)]

    def __len__(self):
        return len(self.molecules)

    def __getitem__(self, index):
        return self.molecules[index]


def batch_molecules(molecules: list[Molecule]):
    """Dense atoms (B, N, F), adjacency (B, N, N), mask (B, N) and targets (B,)."""
    count = len(molecules)
    atoms = torch.zeros(count, MAX_ATOMS, ATOM_FEATURES)
    adjacency = torch.zeros(count, MAX_ATOMS, MAX_ATOMS)
    mask = torch.zeros(count, MAX_ATOMS)
    for i, molecule in enumerate(molecules):
        size = len(molecule.atoms)
        atoms[i, :size] = molecule.atoms
        mask[i, :size] = 1.0
        for bond in molecule.bonds:
            adjacency[i, bond[0], bond[1]] = 1.0
    return atoms, adjacency, mask, torch.tensor([m.solubility for m in molecules])


class MessagePassing(nn.Module):
    def __init__(self, width: int = 96, rounds: int = 4):
        super().__init__()
        self.embed = nn.Linear(ATOM_FEATURES, width)
        self.messages = nn.ModuleList(nn.Linear(width, width) for _ in range(rounds))
        self.readout = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, atoms, adjacency, mask):
        state = self.embed(atoms)
        degree = adjacency.sum(-1, keepdim=True).clamp(min=1)
        for message in self.messages:
            state = state + torch.relu(message(adjacency @ state / degree))
        return self.readout((state * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).squeeze(-1)


def main():
    torch.manual_seed(11)
    train = MoleculeSet(1920, seed=11)
    loader = DataLoader(train, batch_size=48, shuffle=True, collate_fn=batch_molecules)
    model = MessagePassing()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(40):
        total = torch.zeros(())
        for atoms, adjacency, mask, target in loader:
            loss = nn.functional.huber_loss(model(atoms, adjacency, mask), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch}: huber {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
