"""Regresses crop yields from satellite tiles that live in an object store, with accelerate."""

import argparse
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ObjectStore:
    """Stands for the bucket: one request takes a couple of milliseconds, whatever the CPU does."""

    def get(self, key):
        time.sleep(0.003)
        return torch.randn(4, 32, 32, generator=torch.Generator().manual_seed(key))


class Tiles(Dataset):
    def __init__(self, store, count):
        self.store, self.count = store, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        tile = self.store.get(index)
        return tile, tile.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    accelerator = Accelerator(cpu=True)
    loader = DataLoader(
        Tiles(ObjectStore(), 10_000), batch_size=args.batch_size, shuffle=True, num_workers=args.num_workers
    )
    model = nn.Sequential(
        nn.Conv2d(4, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 1),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(args.epochs):
        for step, (tiles, yields) in enumerate(loader):
            loss = nn.functional.mse_loss(model(tiles).squeeze(1), yields)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            if step % 50 == 0:
                accelerator.print(f"epoch {epoch} step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
