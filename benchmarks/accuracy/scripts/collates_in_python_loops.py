"""A character language model; batches are put together token by token."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader

LONGEST, VOCABULARY = 192, 96


def make_lines(count, seed=0):
    draw = random.Random(seed)
    return [[draw.randrange(1, VOCABULARY) for _ in range(draw.randint(160, LONGEST))] for _ in range(count)]


def collate(lines):
    width = max(len(line) for line in lines)
    inputs, targets, weights = [], [], []
    for line in lines:
        row_in, row_out, row_weight = [], [], []
        for position in range(width - 1):
            if position < len(line) - 1:
                row_in.append(torch.tensor(line[position]))
                row_out.append(torch.tensor(line[position + 1]))
                row_weight.append(torch.tensor(1.0))
            else:
                row_in.append(torch.tensor(0))
                row_out.append(torch.tensor(0))
                row_weight.append(torch.tensor(0.0))
        inputs.append(torch.stack(row_in))
        targets.append(torch.stack(row_out))
        weights.append(torch.stack(row_weight))
    return torch.stack(inputs), torch.stack(targets), torch.stack(weights)


class CharModel(nn.Module):
    def __init__(self, width=160):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.convolve = nn.Conv1d(width, width, 7)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        hidden = nn.functional.pad(self.embed(tokens).transpose(1, 2), (6, 0))
        return self.head(self.convolve(hidden).relu().transpose(1, 2))


def main():
    loader = DataLoader(make_lines(6000), batch_size=16, shuffle=True, collate_fn=collate)
    model = CharModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step, (inputs, targets, weights) in enumerate(loader):
        losses = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="none")
        loss = (losses * weights.flatten()).sum() / weights.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 50 == 0:
            print(step, round(loss.item(), 3))


if __name__ == "__main__":
    main()
