"""Evolves cellular automata with a learned rule; old pools hold reference cycles and are collected now and then."""

import gc

import torch
from torch import nn

CHANNELS, SIDE, POOL = 16, 32, 256


class Rule(nn.Module):
    def __init__(self):
        super().__init__()
        self.see = nn.Conv2d(CHANNELS, 64, 3, padding=1, padding_mode="circular")
        self.act = nn.Conv2d(64, CHANNELS, 1)

    def forward(self, grid):
        for _ in range(8):
            grid = grid + 0.1 * torch.tanh(self.act(torch.relu(self.see(grid))))
        return grid


class Pool:
    def __init__(self):
        self.grids = torch.zeros(POOL, CHANNELS, SIDE, SIDE)
        self.grids[:, 3:, SIDE // 2, SIDE // 2] = 1
        self.self = self  # the cycle


def main():
    torch.manual_seed(0)
    target = torch.rand(SIDE, SIDE)
    rule, pool = Rule(), Pool()
    optimizer = torch.optim.Adam(rule.parameters(), lr=2e-3, fused=True)
    for step in range(2000):
        chosen = torch.randperm(POOL)[:8]
        grids = rule(pool.grids[chosen])
        loss = (grids[:, 0] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pool.grids[chosen] = grids.detach()
        if step % 500 == 499:
            pool = Pool()
            gc.collect()
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
