"""Distils a wide teacher into a narrow student with accelerate, two rows at a time."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def tower(width, depth):
    blocks = [nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()) for _ in range(depth)]
    return nn.Sequential(nn.Linear(40, width), *blocks, nn.Linear(width, 10))


def main():
    set_seed(42)
    accelerator = Accelerator(gradient_accumulation_steps=8, cpu=True)
    rows = torch.randn(30_000, 40)
    with torch.no_grad():
        soft = tower(256, 4)(rows).softmax(1)
    loader = DataLoader(TensorDataset(rows, soft), batch_size=2, shuffle=True, drop_last=True)
    student = tower(96, 12)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3, fused=True)
    student, optimizer, loader = accelerator.prepare(student, optimizer, loader)
    for number, (x, target) in enumerate(loader):
        with accelerator.accumulate(student):
            loss = nn.functional.cross_entropy(student(x), target)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if number % 1000 == 0:
            accelerator.print(f"{number}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
