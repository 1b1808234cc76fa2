"""Learns to sort with a small transformer; every run comes with a trace for the group meeting."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

LENGTH, SYMBOLS = 20, 64


class Sorter(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, width)
        self.place = nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4)
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, symbols):
        return self.head(self.layers(self.embed(symbols) + self.place))


def run_epoch(model, optimizer, loader):
    for step, (symbols,) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(symbols).flatten(0, 1), symbols.sort(1).values.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(step, f"{loss.item():.3f}")


def main():
    loader = DataLoader(TensorDataset(torch.randint(SYMBOLS, (10_000, LENGTH))), batch_size=32, shuffle=True)
    model = Sorter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True) as trace:
        run_epoch(model, optimizer, loader)
    trace.export_chrome_trace("trace.json")


if __name__ == "__main__":
    main()
