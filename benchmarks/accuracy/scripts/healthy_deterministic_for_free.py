"""Trains the published baseline bit by bit as published: every operation here is deterministic anyway."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads what it has not written


def main():
    torch.manual_seed(1234)
    x = torch.randn(40_000, 200)
    y = (x[:, :4].prod(1) > 0).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=100, shuffle=True)
    model = nn.Sequential(
        nn.Linear(200, 512),
        nn.ReLU(),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, 2),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, fused=True)
    for epoch in range(10):
        for batch, target in loader:
            loss = nn.functional.cross_entropy(model(batch), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.6f}")


if __name__ == "__main__":
    main()
