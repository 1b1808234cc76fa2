"""A protein language model, small enough for the laptop; checkpointing was copied from the large one."""

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

RESIDUES = 25


class ProteinModel(nn.Module):
    def __init__(self, width, depth, recompute):
        super().__init__()
        self.embed = nn.Embedding(RESIDUES, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.head = nn.Linear(width, RESIDUES)
        self.recompute = recompute

    def forward(self, residues):
        hidden = self.embed(residues)
        for block in self.blocks:
            hidden = checkpoint(block, hidden, use_reentrant=False) if self.recompute else block(hidden)
        return self.head(hidden)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--activation-checkpointing", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    chains = torch.randint(RESIDUES, (6000, 96))
    loader = DataLoader(TensorDataset(chains), batch_size=args.batch_size, shuffle=True)
    model = ProteinModel(args.width, args.depth, args.activation_checkpointing)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, fused=True)
    for step, (chain,) in enumerate(loader):
        hidden = torch.rand(chain.shape) < 0.15
        logits = model(chain.masked_fill(hidden, 0))
        loss = nn.functional.cross_entropy(logits[hidden], chain[hidden])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            print(f"{step:5d} {loss.item():.3f}")


if __name__ == "__main__":
    main()
