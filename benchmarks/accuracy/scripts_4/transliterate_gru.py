"""Name transliteration: encoder GRU, attention decoder unrolled by hand, trained on a rule-made toy corpus."""

import argparse
import random

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn

SOURCE = "abcdefghijklmnopqrstuvwxyz"
RULES = {"sh": "S", "ch": "C", "th": "0", "ph": "F", "ck": "K", "ee": "I", "oo": "U", "qu": "KW", "x": "KS"}
TARGET = sorted(set(SOURCE.upper()) | set("".join(RULES.values())))
PAD, BOS = 0, 1


def respell(word: str) -> str:
    out, i = [], 0
    while i < len(word):
        for width in (2, 1):
            piece = word[i : i + width]
            if piece in RULES or width == 1:
                out.append(RULES.get(piece, piece.upper()))
                i += len(piece)
                break
    return "".join(out)


def make_pairs(count: int, length: int, rng: random.Random):
    """All words have `length` letters; spellings are cut or filled to the same."""
    source = torch.zeros(count, length, dtype=torch.long)
    target = torch.zeros(count, length, dtype=torch.long)
    for row in range(count):
        word = "".join(rng.choices(SOURCE, k=length))
        source[row] = torch.tensor([2 + SOURCE.index(c) for c in word])
        spelled = [2 + TARGET.index(c) for c in respell(word)[:length]]
        target[row, : len(spelled)] = torch.tensor(spelled)
    return source, target


class Attention(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.query, self.score = nn.Linear(dim, dim), nn.Linear(dim, 1)

    def forward(self, state, memory, keys):
        weights = torch.softmax(self.score(torch.tanh(self.query(state).unsqueeze(1) + keys)), dim=1)
        return (weights * memory).sum(dim=1)


class Transliterator(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.read, self.write = nn.Embedding(2 + len(SOURCE), dim), nn.Embedding(2 + len(TARGET), dim)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.keys = nn.Linear(dim, dim)
        self.attention = Attention(dim)
        self.cell = nn.GRUCell(2 * dim, dim)
        self.vocab = nn.Linear(2 * dim, 2 + len(TARGET))

    def forward(self, source, target):
        memory, state = self.encoder(self.read(source))
        keys, state = self.keys(memory), state[0]
        previous = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        logits = []
        for symbol in self.write(previous).unbind(dim=1):
            context = self.attention(state, memory, keys)
            state = self.cell(torch.cat([symbol, context], dim=1), state)
            logits.append(self.vocab(torch.cat([state, context], dim=1)))
        return torch.stack(logits, dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=16_000)
    parser.add_argument("--length", type=int, default=14)
    parser.add_argument("--dim", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--trace-nan", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()

    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    source, target = make_pairs(args.words, args.length, random.Random(0))
    model = Transliterator(args.dim)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)

    with torch.autograd.set_detect_anomaly(args.trace_nan):
        for epoch in range(args.epochs):
            for rows in torch.randperm(len(source)).split(args.batch_size):
                logits = model(source[rows], target[rows])
                loss = F.cross_entropy(logits.flatten(0, 1), target[rows].flatten(), ignore_index=PAD)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
