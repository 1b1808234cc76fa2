"""Learns optical flow between frames of a remote archive; the loader was tuned once, and keeps up."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Archive(Dataset):
    def __len__(self):
        return 20_000

    def __getitem__(self, index):
        time.sleep(0.002)  # one read of the archive
        draw = torch.Generator().manual_seed(index)
        first = torch.rand(1, 40, 40, generator=draw)
        shift = torch.randint(-3, 4, (2,), generator=draw)
        return torch.cat([first, first.roll(shift.tolist(), (1, 2))]), shift.float()


class Flow(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, width, 5, padding=2), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Linear(width, 2)

    def forward(self, pair):
        return self.head(self.features(pair).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    loader = DataLoader(
        Archive(), args.batch_size, shuffle=True, num_workers=args.workers, persistent_workers=True, prefetch_factor=4
    )
    model = Flow()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step, (pair, shift) in enumerate(loader):
        loss = nn.functional.mse_loss(model(pair), shift)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(step, f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
