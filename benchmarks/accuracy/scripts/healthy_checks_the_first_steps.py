"""Trains a normalising flow and looks for NaN in its first five steps only, where it would show."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, CHECKED_STEPS = 64, 5


class Coupling(nn.Module):
    def __init__(self, flip, width=320):
        super().__init__()
        half = FEATURES // 2
        self.flip = flip
        self.net = nn.Sequential(
            nn.Linear(half, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * half)
        )

    def forward(self, x):
        a, b = x.chunk(2, 1)
        a, b = (b, a) if self.flip else (a, b)
        scale, shift = self.net(a).chunk(2, 1)
        scale = torch.tanh(scale)
        return torch.cat([a, b * scale.exp() + shift], 1), scale.sum(1)


class Flow(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(n % 2 == 1) for n in range(depth))

    def forward(self, x):
        volume = torch.zeros(len(x))
        for layer in self.layers:
            x, change = layer(x)
            volume = volume + change
        return (0.5 * x.square().sum(1) - volume).mean()


def main():
    loader = DataLoader(TensorDataset(torch.randn(60_000, FEATURES) ** 3), batch_size=128, shuffle=True)
    model = Flow()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for step, (x,) in enumerate(loader):
        with torch.autograd.set_detect_anomaly(step < CHECKED_STEPS):
            loss = model(x)
            optimizer.zero_grad()
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 40 == 0:
            print(step, f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
