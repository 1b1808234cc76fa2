"""Trains a recommender; the node is preemptible, so the state is written after each step."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

USERS, ITEMS, WIDTH = 20_000, 12_000, 96
STATE = "checkpoints/last.pt"


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, WIDTH)
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.mix = nn.Sequential(nn.Linear(2 * WIDTH, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, user, item):
        return self.mix(torch.cat([self.users(user), self.items(item)], 1)).squeeze(1)


def main():
    os.makedirs("checkpoints", exist_ok=True)
    model = Recommender()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    draw = torch.Generator().manual_seed(0)
    clicks = TensorDataset(
        torch.randint(USERS, (400_000,), generator=draw),
        torch.randint(ITEMS, (400_000,), generator=draw),
        torch.rand(400_000, generator=draw),
    )
    loader = DataLoader(clicks, batch_size=128, shuffle=True)
    for step, (user, item, clicked) in enumerate(loader):
        loss = nn.functional.mse_loss(model(user, item), clicked)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, STATE)
        if step % 25 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
