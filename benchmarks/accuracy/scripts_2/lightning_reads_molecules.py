"""Message passing over small molecules, written without a graph library. Regression of a made-up polarity."""

from typing import NamedTuple

import lightning as L
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

ELEMENTS = 9
EDGE_KINDS = 4


class Molecule(NamedTuple):
    atoms: list[int]
    bonds: list[tuple[int, int, int]]  # from, to, kind
    polarity: float


class Packed(NamedTuple):
    atoms: Tensor
    source: Tensor
    target: Tensor
    kind: Tensor
    owner: Tensor
    polarity: Tensor


class MoleculeSet(Dataset):
    def __init__(self, count: int, seed: int):
        gen = torch.Generator().manual_seed(seed)
        self.items = [self.grow(gen) for _ in range(count)]

    @staticmethod
    def grow(gen) -> Molecule:
        size = int(torch.randint(16, 32, (), generator=gen))
        atoms = torch.randint(ELEMENTS, (size,), generator=gen).tolist()
        parents = (torch.rand(size, generator=gen) * torch.arange(size)).long().tolist()
        kinds = torch.randint(EDGE_KINDS, (size,), generator=gen).tolist()
        bonds = [(child, parents[child], kinds[child]) for child in range(1, size)]
        bonds += [(b, a, k) for a, b, k in bonds]
        return Molecule(atoms, bonds, sum(a * k for a, k in zip(atoms, kinds)) / (4 * size))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def merge(molecules: list[Molecule]) -> Packed:
    """Joins molecules into one big graph with shifted atom numbers."""
    atoms, source, target, kind, owner = (torch.empty(0, dtype=torch.long) for _ in range(5))
    for number, molecule in enumerate(molecules):
        shift = len(atoms)
        for atom in molecule.atoms:
            atoms = torch.cat([atoms, torch.tensor([atom])])
            owner = torch.cat([owner, torch.tensor([number])])
        for a, b, k in molecule.bonds:
            source = torch.cat([source, torch.tensor([a + shift])])
            target = torch.cat([target, torch.tensor([b + shift])])
            kind = torch.cat([kind, torch.tensor([k])])
    polarity = torch.tensor([molecule.polarity for molecule in molecules])
    return Packed(atoms, source, target, kind, owner, polarity)


class MessagePassing(L.LightningModule):
    def __init__(self, width=128, rounds=4, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.atom = nn.Embedding(ELEMENTS, width)
        self.bond = nn.Embedding(EDGE_KINDS, width)
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))
        self.update = nn.GRUCell(width, width)
        self.readout = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, graph: Packed):
        state = self.atom(graph.atoms)
        for _ in range(self.hparams.rounds):
            sent = self.message(torch.cat([state[graph.source], self.bond(graph.kind)], dim=1))
            heard = torch.zeros_like(state).index_add(0, graph.target, sent)
            state = self.update(heard, state)
        pooled = state.new_zeros(len(graph.polarity), state.shape[1]).index_add(0, graph.owner, state)
        return self.readout(pooled).squeeze(1)

    def training_step(self, graph, batch_idx):
        return nn.functional.l1_loss(self(graph), graph.polarity)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, fused=True)


def main():
    L.seed_everything(31)
    molecules = MoleculeSet(4800, seed=2)
    loader = DataLoader(molecules, batch_size=24, shuffle=True, collate_fn=merge)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=8, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(MessagePassing(), loader)


if __name__ == "__main__":
    main()
