"""Attention seq2seq that rewrites dates ("3 march 1998" -> "1998-03-03"), cell by cell."""
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class HParams:
    hidden: int = 256
    embed: int = 64
    batch: int = 128
    steps: int = 1500
    lr: float = 1e-3
    clip: float = 1.0
    seed: int = 4
    hunt_nans: bool = True


MONTHS = "january february march april may june july august september october november december".split()
CHARS = ["<pad>", "<s>"] + sorted(set("0123456789- ,abcdefghijklmnopqrstuvwxyz"))
ID = {c: i for i, c in enumerate(CHARS)}
SOURCE, TARGET = 20, 10


def example(rng):
    y, m, d = rng.randint(1900, 2099), rng.randint(1, 12), rng.randint(1, 28)
    long = rng.choice([f"{d} {MONTHS[m - 1]} {y}", f"{MONTHS[m - 1]} {d}, {y}"])
    return long.ljust(SOURCE, " ")[:SOURCE], f"{y}-{m:02d}-{d:02d}"


def dataset(n, seed):
    rng = random.Random(seed)
    pairs = [example(rng) for _ in range(n)]
    source = torch.tensor([[ID[c] for c in s] for s, _ in pairs])
    target = torch.tensor([[ID[c] for c in t] for _, t in pairs])
    return source, target


class Seq2Seq(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS), hp.embed)
        self.encoder = nn.GRU(hp.embed, hp.hidden, batch_first=True)
        self.cell = nn.GRUCell(hp.embed + hp.hidden, hp.hidden)
        self.query = nn.Linear(hp.hidden, hp.hidden, bias=False)
        self.out = nn.Linear(2 * hp.hidden, len(CHARS))

    def forward(self, source, target):
        memory, last = self.encoder(self.emb(source))
        h, token, logits = last[0], torch.full((len(source),), ID["<s>"]), []
        for position in range(target.shape[1]):
            weights = torch.einsum("bh,bth->bt", self.query(h), memory).softmax(-1)
            context = torch.einsum("bt,bth->bh", weights, memory)
            h = self.cell(torch.cat([self.emb(token), context], -1), h)
            logits.append(self.out(torch.cat([h, context], -1)))
            token = target[:, position]
        return torch.stack(logits, 1)


def train(hp):
    torch.manual_seed(hp.seed)
    torch.autograd.set_detect_anomaly(hp.hunt_nans)
    source, target = dataset(20_000, hp.seed)
    model = Seq2Seq(hp)
    opt = torch.optim.Adam(model.parameters(), lr=hp.lr, fused=True)
    for step in range(hp.steps):
        rows = torch.randint(len(source), (hp.batch,))
        logits = model(source[rows], target[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), target[rows].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), hp.clip)
        opt.step()
        if step % 100 == 0:
            exact = (logits.argmax(-1) == target[rows]).all(1).float().mean()
            print(f"step {step} loss {loss.item():.4f} exact {exact.item():.3f}", flush=True)


if __name__ == "__main__":
    train(HParams())
