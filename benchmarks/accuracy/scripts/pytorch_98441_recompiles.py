"""Compiles a translation encoder whose batches have a new width each time."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader

VOCABULARY = 900


def make_pairs(count):
    draw = random.Random(8)
    return [torch.randint(VOCABULARY, (draw.randint(20, 90),)) for _ in range(count)]


def collate(rows):
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


class Encoder(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens)))


def main():
    torch.manual_seed(0)
    pairs = sorted(make_pairs(8000), key=len)
    batches = [pairs[start : start + 16] for start in range(0, len(pairs), 16)]
    random.Random(1).shuffle(batches)
    loader = DataLoader(batches, batch_size=None, collate_fn=collate)
    model = Encoder()
    compiled = torch.compile(model, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step, tokens in enumerate(loader):
        logits = compiled(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            print(f"step {step}, width {tokens.shape[1]}, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
