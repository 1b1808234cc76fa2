"""Which compartment does a protein live in? A small transformer over residues, on one process or many.

Chains range from short peptides to large complexes, so each batch is padded to its own longest chain.
"""
import argparse
import math

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader

RESIDUES, COMPARTMENTS, PAD = 20, 6, 0

DEFAULTS = {
    "model": {"dim": 96, "heads": 4, "depth": 2},
    "data": {"batch_size": 16, "shuffle": True},
    "optim": {"lr": 5e-4, "weight_decay": 0.01},
}


def read_chains(count):
    """Log-normal lengths, as in Swiss-Prot (cut at 400)."""
    gen = torch.Generator().manual_seed(2718)
    lengths = torch.exp(4.2 + 0.75 * torch.randn(count, generator=gen)).clamp(20, 400).long()
    tendency = torch.rand(COMPARTMENTS, RESIDUES, generator=gen) ** 2
    chains = []
    for length in lengths.tolist():
        label = int(torch.randint(COMPARTMENTS, (), generator=gen))
        residues = torch.multinomial(tendency[label], length, replacement=True, generator=gen) + 1
        chains.append({"residues": residues, "label": label})
    return chains


def pad_chains(examples):
    residues = nn.utils.rnn.pad_sequence([e["residues"] for e in examples], batch_first=True, padding_value=PAD)
    return {"residues": residues, "label": torch.tensor([e["label"] for e in examples])}


def build_loader(chains, **options):
    return DataLoader(chains, collate_fn=pad_chains, **options)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.mix = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, keep):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None, :])
        x = x + self.mix(seen.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.norm2(x))


class Localiser(nn.Module):
    def __init__(self, dim, heads, depth):
        super().__init__()
        self.embed = nn.Embedding(RESIDUES + 1, dim, padding_idx=PAD)
        angles = torch.arange(400)[:, None] * torch.exp(-torch.arange(0, dim, 2) * math.log(1e4) / dim)
        self.register_buffer("position", torch.cat([angles.sin(), angles.cos()], 1))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, COMPARTMENTS)

    def forward(self, residues):
        keep = residues != PAD
        x = self.embed(residues) + self.position[: residues.shape[1]]
        for block in self.blocks:
            x = block(x, keep)
        weight = keep.unsqueeze(-1).float()
        return self.head((x * weight).sum(1) / weight.sum(1))


def train(config, epochs):
    accelerator = Accelerator(cpu=True)
    set_seed(config.get("seed", 1))
    loader = build_loader(read_chains(640), **config["data"])
    model = Localiser(**config["model"])
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **config["optim"])
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(epochs):
        total = torch.zeros(())
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["residues"]), batch["label"])
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            total += loss.detach()
        accelerator.print(f"epoch {epoch}: loss {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=40)
    train(DEFAULTS, parser.parse_args().epochs)
