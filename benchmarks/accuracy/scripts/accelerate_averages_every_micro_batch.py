"""Two processes, accumulation by hand: torchrun --nproc-per-node 2 accelerate_averages_every_micro_batch.py"""

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    """Sums of two sine waves; the label is the slower frequency."""

    def __init__(self, count, length=512):
        draw = torch.Generator().manual_seed(0)
        self.slow = torch.randint(1, 9, (count,), generator=draw)
        self.fast = torch.randint(20, 90, (count,), generator=draw)
        self.time = torch.linspace(0, 6.28, length)

    def __len__(self):
        return len(self.slow)

    def __getitem__(self, index):
        wave = torch.sin(self.slow[index] * self.time) + 0.5 * torch.sin(self.fast[index] * self.time)
        return wave, self.slow[index] - 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(
        nn.Linear(512, args.width), nn.GELU(), nn.Linear(args.width, args.width), nn.GELU(), nn.Linear(args.width, 8)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    loader = DataLoader(Waves(30_000), batch_size=32, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(5):
        for micro, (wave, label) in enumerate(loader, 1):
            loss = nn.functional.cross_entropy(model(wave), label) / args.accumulate
            accelerator.backward(loss)
            if micro % args.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: {args.accumulate * loss.item():.4f}")


if __name__ == "__main__":
    main()
