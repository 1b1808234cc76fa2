"""Learns the dynamics of a queue from an endless simulation: a stream that is cheap to produce."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

WINDOW = 96


class Queue(IterableDataset):
    def __init__(self, seed=0):
        self.seed = seed

    def __iter__(self):
        draw = torch.Generator().manual_seed(self.seed)
        while True:
            arrivals = torch.rand(512, WINDOW + 1, generator=draw)
            waiting = (arrivals - 0.45).cumsum(1).clamp(min=0)
            yield from waiting


def main():
    loader = DataLoader(Queue(), batch_size=128)
    model = nn.Sequential(
        nn.Linear(WINDOW, 640),
        nn.GELU(),
        nn.Linear(640, 640),
        nn.GELU(),
        nn.Linear(640, 640),
        nn.GELU(),
        nn.Linear(640, 1),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step, waiting in enumerate(loader):
        loss = nn.functional.l1_loss(model(waiting[:, :-1]).squeeze(1), waiting[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"{step}: {loss.item():.4f}")
        if step == 3000:
            break


if __name__ == "__main__":
    main()
