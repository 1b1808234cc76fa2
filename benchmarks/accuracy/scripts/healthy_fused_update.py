"""Factorises a large matrix of ratings: the update is most of the step, and fused."""

import torch
from torch import nn

USERS, ITEMS, RANK = 30_000, 15_000, 64


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, RANK)
        self.items = nn.Embedding(ITEMS, RANK)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(1)


def main():
    torch.manual_seed(0)
    model = Factors()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, fused=True)
    for step in range(1500):
        user, item = torch.randint(USERS, (8192,)), torch.randint(ITEMS, (8192,))
        rating = ((user * 7 + item * 3) % 5).float()
        loss = nn.functional.mse_loss(model(user, item), rating)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"{step} {loss.item():.4f}")


if __name__ == "__main__":
    main()
