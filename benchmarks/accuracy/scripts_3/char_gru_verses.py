#!/usr/bin/env python
"""Character-level GRU language model on made-up verse (research code, one file)."""

import argparse
import random
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SYLLABLES = ["la", "mo", "rin", "tha", "el", "dor", "qui", "ven", "sa", "ul", "ne", "far", "ith", "bo"]


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--corpus", type=Path, default=Path("verses.txt"))
    p.add_argument("--ctx", type=int, default=48, help="characters per window")
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--bsz", type=int, default=4, help="windows per forward/backward")
    p.add_argument("--accum", type=int, default=8, help="forward/backwards per update")
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--updates", type=int, default=600)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=17)
    return p.parse_args()


def write_corpus(path, seed, lines=6000):
    rng = random.Random(seed)
    verses = (" ".join("".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(6)) for _ in range(lines))
    path.write_text("\n".join(verses))


class Windows(Dataset):
    def __init__(self, text, ctx):
        self.alphabet = sorted(set(text))
        lookup = {ch: i for i, ch in enumerate(self.alphabet)}
        ids = torch.tensor([lookup[ch] for ch in text])
        usable = (len(ids) - 1) // ctx * ctx
        self.inputs = ids[:usable].view(-1, ctx)
        self.labels = ids[1 : usable + 1].view(-1, ctx)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, i):
        return self.inputs[i], self.labels[i]


class CharGRU(nn.Module):
    def __init__(self, n_chars, hidden):
        super().__init__()
        self.emb = nn.Embedding(n_chars, 64)
        self.rnn = nn.GRU(64, hidden, batch_first=True)
        self.proj = nn.Linear(hidden, n_chars)

    def forward(self, ids):
        states, _ = self.rnn(self.emb(ids))
        return self.proj(states)


def cycle(loader):
    while True:
        yield from loader


if __name__ == "__main__":
    args = parse_args()
    torch.manual_seed(args.seed)
    if not args.corpus.exists():
        write_corpus(args.corpus, args.seed)
    data = Windows(args.corpus.read_text(), args.ctx)
    stream = cycle(DataLoader(data, batch_size=args.bsz, shuffle=True, drop_last=True))
    model = CharGRU(len(data.alphabet), args.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    print(f"{len(data)} windows, {sum(p.numel() for p in model.parameters()):,} parameters")

    for update in range(1, args.updates + 1):
        total = torch.zeros(())
        for _ in range(args.accum):
            ids, labels = next(stream)
            loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), labels.flatten())
            (loss / args.accum).backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        opt.step()
        opt.zero_grad()
        if update % 50 == 0:
            print(f"update {update}: {total.item() / args.accum:.3f} nats/char")
