"""Graph network for the aqueous solubility of small molecules."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader

ELEMENTS = ("C", "N", "O", "S", "F", "Cl", "P")
POLARITY = (-0.35, 0.5, 0.6, 0.05, -0.2, -0.5, 0.3)
MOST_ATOMS = 40


@dataclass(frozen=True, slots=True)
class Molecule:
    elements: np.ndarray  # (atoms,) int64
    charges: np.ndarray  # (atoms,) float32
    bonds: np.ndarray  # (bonds, 2) int64
    orders: np.ndarray  # (bonds,) float32
    log_s: float


def random_molecule(rng: np.random.Generator) -> Molecule:
    """A tree of atoms with a few rings; solubility follows from size, polar atoms and rings."""
    atoms = int(rng.integers(16, MOST_ATOMS + 1))
    elements = rng.choice(len(ELEMENTS), size=atoms, p=(0.66, 0.11, 0.13, 0.03, 0.03, 0.02, 0.02))
    parents = [int(rng.integers(max(0, child - 3), child)) for child in range(1, atoms)]
    rings = [(int(a), int(a) + 5) for a in rng.integers(0, atoms - 5, size=int(rng.integers(0, 4)))]
    bonds = np.array([*zip(parents, range(1, atoms)), *rings], dtype=np.int64)
    orders = rng.choice(np.array([1.0, 1.5, 2.0], dtype=np.float32), size=len(bonds))
    log_s = sum(POLARITY[e] for e in elements) - 0.03 * atoms - 0.4 * len(rings) + rng.normal(0, 0.2)
    return Molecule(elements, rng.normal(0, 0.2, atoms).astype(np.float32), bonds, orders, float(log_s))


def pad_molecules(molecules: list[Molecule]) -> dict[str, torch.Tensor]:
    size = max(len(m.elements) for m in molecules)
    elements = torch.zeros(len(molecules), size, dtype=torch.long)
    charges = torch.zeros(len(molecules), size)
    present = torch.zeros(len(molecules), size)
    links = torch.zeros(len(molecules), size, size)
    for row, molecule in enumerate(molecules):
        for atom in range(len(molecule.elements)):
            elements[row, atom] = int(molecule.elements[atom])
            charges[row, atom] = float(molecule.charges[atom])
            present[row, atom] = 1.0
        for (left, right), order in zip(molecule.bonds, molecule.orders):
            links[row, left, right] = float(order)
            links[row, right, left] = float(order)
    log_s = torch.tensor([m.log_s for m in molecules])
    return {"elements": elements, "charges": charges, "present": present, "links": links, "log_s": log_s}


class MessageLayer(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.own, self.sent = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, atoms: torch.Tensor, links: torch.Tensor) -> torch.Tensor:
        return atoms + F.silu(self.own(self.norm(atoms)) + links @ self.sent(atoms))


class SolubilityNet(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.element = nn.Embedding(len(ELEMENTS), width)
        self.charge = nn.Linear(1, width)
        self.layers = nn.ModuleList(MessageLayer(width) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        atoms = self.element(batch["elements"]) + self.charge(batch["charges"].unsqueeze(-1))
        links = batch["links"] / batch["links"].sum(-1, keepdim=True).clamp(min=1.0)
        for layer in self.layers:
            atoms = layer(atoms, links)
        return (self.readout(atoms).squeeze(-1) * batch["present"]).sum(1)


def fit(options: argparse.Namespace) -> None:
    accelerator = Accelerator(cpu=True)
    rng = np.random.default_rng(options.seed)
    library = [random_molecule(rng) for _ in range(options.molecules)]
    loader = DataLoader(library, batch_size=options.batch_size, shuffle=True, drop_last=True, collate_fn=pad_molecules)
    model = SolubilityNet(options.width, options.depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=1e-3, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(1, options.epochs + 1):
        errors = torch.zeros(())
        for batch in loader:
            loss = F.smooth_l1_loss(model(batch), batch["log_s"])
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            errors += loss.detach()
        accelerator.print(f"epoch {epoch:3d}  loss {errors.item() / len(loader):.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--molecules", type=int, default=6000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=17)
    settings = parser.parse_args()
    set_seed(settings.seed)
    fit(settings)
