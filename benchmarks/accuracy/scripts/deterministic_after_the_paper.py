"""Fits a field of sine waves to pictures. Bitwise equal runs were needed for the paper, and are not any more."""

import argparse

import torch
from torch import nn


class SineLayer(nn.Module):
    def __init__(self, inputs, outputs, frequency=30.0):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.frequency = frequency
        nn.init.uniform_(self.linear.weight, -1 / inputs, 1 / inputs)

    def forward(self, x):
        wave = torch.sin(self.frequency * self.linear(x))
        return wave * torch.sigmoid(wave) + 0.1 * wave


def picture(points):
    x, y = points.unbind(1)
    return torch.stack([torch.sin(9 * x), torch.cos(7 * y), torch.sin(5 * x * y)], 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--deterministic", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(args.deterministic)
    field = nn.Sequential(SineLayer(2, 64), SineLayer(64, 64), SineLayer(64, 64), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(field.parameters(), lr=1e-4, fused=True)
    for step in range(args.steps):
        points = torch.rand(args.points, 2) * 2 - 1
        loss = nn.functional.mse_loss(field(points), picture(points))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"{step}: {loss.item():.5f}")


if __name__ == "__main__":
    main()
