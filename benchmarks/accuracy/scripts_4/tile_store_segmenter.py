"""Segment bright fields in satellite tiles that come from a remote tile store (simulated latency here)."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class TileStore:
    """Stands for the HTTP client of the store: a round trip per tile."""

    def __init__(self, latency):
        self.latency = latency

    def get(self, key):
        time.sleep(self.latency)
        generator = torch.Generator().manual_seed(key)
        return torch.rand(3, 48, 48, generator=generator)


class Tiles(Dataset):
    def __init__(self, store, count):
        self.store, self.count = store, count

    def __len__(self):
        return self.count

    def __getitem__(self, key):
        tile = self.store.get(key)
        return {"tile": tile, "field": (tile.mean(0, keepdim=True) > 0.55).float()}


class TinyUNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down = nn.Conv2d(3, width, 3, padding=1)
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.up = nn.Conv2d(2 * width, 1, 3, padding=1)

    def forward(self, tile):
        skip = F.relu(self.down(tile))
        low = F.relu(self.middle(F.max_pool2d(skip, 2)))
        return self.up(torch.cat([skip, F.interpolate(low, scale_factor=2)], 1))


def train(args):
    torch.manual_seed(args.seed)
    tiles = Tiles(TileStore(args.latency), 8000)
    loader = DataLoader(tiles, batch_size=args.batch_size, shuffle=True, num_workers=args.readers)
    model = TinyUNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    for epoch in range(args.epochs):
        for step, batch in enumerate(loader):
            loss = F.binary_cross_entropy_with_logits(model(batch["tile"]), batch["field"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"{epoch}:{step} loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--latency", type=float, default=0.006)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=5)
    train(parser.parse_args())
